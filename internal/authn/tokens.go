package authn

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// This file authenticates bearer tokens from a file in the format of kube-apiserver's
// --token-auth-file: token,user,uid,"group1,group2".

// tokenFile maps hashes of tokens to users. The time of a look-up therefore does not reveal how
// much of a guess is right.
type tokenFile map[[sha256.Size]byte]*Response

// TokenFile reads a CSV file once. If a token appears twice, the last line counts; lines without a
// token are skipped. Both are logged.
func TokenFile(path string, logger *slog.Logger) (Token, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readTokens(f, path, logger)
}

// readTokens parses the lines of a token file.
func readTokens(r io.Reader, path string, logger *slog.Logger) (tokenFile, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	t := tokenFile{}
	for n := 1; ; n++ {
		record, err := in.Read()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("token file '%s': %w", path, err)
		}
		if len(record) < 3 {
			return nil, fmt.Errorf("token file '%s' must have at least 3 columns (token, user name, user uid), found %d", path, len(record))
		}
		if record[0] == "" {
			logger.Warn("empty token in the token file", "file", path, "record", n)
			continue
		}
		key := sha256.Sum256([]byte(record[0]))
		if t[key] != nil {
			logger.Warn("duplicate token in the token file", "file", path, "record", n)
		}
		user := &User{Name: strings.Clone(record[1]), UID: strings.Clone(record[2])}
		if user.Name == "" {
			return nil, fmt.Errorf("token file '%s': record %d has no user name", path, n)
		}
		if len(record) >= 4 {
			user.Groups = strings.Split(strings.Clone(record[3]), ",")
		}
		user.Groups = WithAuthenticated(user.Name, user.Groups)
		t[key] = &Response{User: user}
	}
}

// AuthenticateToken implements Token. The tokens are valid for all audiences.
func (t tokenFile) AuthenticateToken(_ context.Context, token string, _ []string) (*Response, error) {
	return t[sha256.Sum256([]byte(token))], nil
}
