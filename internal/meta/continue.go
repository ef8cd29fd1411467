package meta

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/keelson-io/keelson/internal/status"
)

// This file encodes and decodes continue tokens in upstream's format, so that a list can be
// continued at a kube-apiserver.

// continueToken is the JSON inside a token. Its field names are upstream's.
type continueToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

const continueVersion = "meta.k8s.io/v1"

// EncodeContinue returns a token for the list at revision rv (-1: the newest state) that continues
// at the key start. The key is relative to the list's prefix and begins with a slash.
func EncodeContinue(rv int64, start string) string {
	b, err := json.Marshal(continueToken{continueVersion, rv, start})
	if err != nil {
		panic("BUG: a continue token does not print: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseContinue decodes a token. It refuses revision 0, and keys outside of the list's prefix.
func ParseContinue(token string) (rv int64, start string, err error) {
	refuse := func(format string, args ...any) (int64, string, error) {
		return 0, "", status.BadRequest("invalid continue token: continue key is not valid%s", fmt.Sprintf(format, args...))
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return refuse(": %v", err)
	}
	var t continueToken
	if err := json.Unmarshal(b, &t); err != nil {
		// The text may name this Go type; replace it by upstream's.
		return refuse(": %v", strings.ReplaceAll(err.Error(), "meta.continueToken", "storage.continueToken"))
	}
	switch {
	case t.Version != continueVersion:
		return refuse(": server does not recognize this encoded version %v", t.Version)
	case t.Revision == 0:
		return refuse(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return refuse(": encoded start key empty (version meta.k8s.io/v1)")
	}
	start = t.Start
	if !strings.HasPrefix(start, "/") {
		start = "/" + start
	}
	if path.Clean(start) != start {
		return refuse(": %v", t.Start)
	}
	return t.Revision, start, nil
}
