package authn

import (
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// This file authenticates by bearer tokens listed in a file, in the format of
// kube-apiserver's --token-auth-file: token,user,uid,"group1,group2".

var errInvalidToken = errors.New("invalid bearer token")

// tokens are the users by the hash of their token, so that looking one up
// takes no time that depends on how much of a guess is right.
type tokens map[[sha256.Size]byte]*User

// TokenFile authenticates by the tokens of a CSV file, read once.
func TokenFile(path string) (Authenticator, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := readTokens(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func readTokens(r io.Reader) (tokens, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	t := tokens{}
	for {
		record, err := in.Read()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d: got %d columns, want at least 3 (token, user name, user uid)", line, len(record))
		}
		if record[0] == "" {
			return nil, fmt.Errorf("line %d: token is empty", line)
		}
		if record[1] == "" {
			return nil, fmt.Errorf("line %d: user name is empty", line)
		}
		hash := sha256.Sum256([]byte(record[0]))
		if t[hash] != nil {
			return nil, fmt.Errorf("line %d: token is listed twice", line)
		}
		u := &User{Name: record[1], UID: record[2]}
		if len(record) >= 4 && record[3] != "" {
			u.Groups = strings.Split(record[3], ",")
		}
		u.Groups = withAuthenticated(u.Groups)
		t[hash] = u
	}
}

// Authenticate implements Authenticator.
func (t tokens) Authenticate(r *http.Request) (*User, error) {
	token, ok := bearer(r)
	if !ok {
		return nil, nil
	}
	if u := t[sha256.Sum256([]byte(token))]; u != nil {
		return u, nil
	}
	return nil, errInvalidToken
}

// bearer is the bearer token of a request.
func bearer(r *http.Request) (string, bool) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token, _, _ := strings.Cut(rest, " ")
	return token, token != ""
}
