package keysize

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// This file checks the keys of JSON Web Key Sets, and those in headers of tokens.

// shortHeader is a header that needs no check, in bytes: a number in it has at most 8,192 bits.
const shortHeader = 1 << 10

// numbers are the members of an RSA key that are numbers, private those that only private keys have.
var (
	numbers = []string{"n", "e", "d", "p", "q", "dp", "dq", "qi"}
	private = []string{"d", "p", "q", "dp", "dq", "qi"}
)

var (
	errToken    = errors.New("the header of the token is not base64")
	errEmbedded = errors.New("the header of the token has a private key")
)

// CheckKeys returns an error if a key of a JSON Web Key Set has a number of more than MaxBits. It
// accepts malformed JSON, which no parser reads.
func CheckKeys(set []byte) error { return checkJSON(set, false) }

// CheckToken returns an error if a token has a key in its header that takes long to parse. Parsers of
// tokens parse this key before they verify anything, so that its sender needs no credentials.
func CheckToken(token string) error {
	header, _, _ := strings.Cut(token, ".")
	if len(header) <= shortHeader && !strings.HasPrefix(strings.TrimSpace(header), "{") {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return errToken
	}
	return checkJSON(text, true)
}

// checkJSON checks the numbers and the certificates of keys anywhere in a JSON text. If public is
// set, it refuses private keys.
func checkJSON(text []byte, public bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var open []json.Delim // arrays and objects around the token
	name, isName := "", false
	for {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				open = append(open, t)
			} else {
				open = open[:len(open)-1]
			}
		case string:
			if isName {
				name, isName = t, false
				continue
			}
			if err := checkMember(name, t, public); err != nil {
				return err
			}
		}
		isName = len(open) > 0 && open[len(open)-1] == '{'
	}
}

// checkMember checks a text that is the value of a member, or an item of its array.
func checkMember(name, value string, public bool) error {
	switch {
	case public && slices.Contains(private, name):
		return errEmbedded
	case name == "x5c":
		der, _ := base64.StdEncoding.DecodeString(value)
		return CheckDER(der, MaxBits)
	case slices.Contains(numbers, name):
		// Three of four bits of base64 count. Decoders ignore line breaks, which nobody writes here.
		if n := len(value) * 6; n > MaxBits+7 {
			return &TooLong{n, MaxBits}
		}
	}
	return nil
}
