package authn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// This file describes for the operator why a credential was refused. Clients get the text of the error alone.

// reason is an error of an authenticator, with what only the log shows.
type reason struct {
	error
	by     string // the authenticator, as the operator configured it
	detail string // more than the text of the error says; "": nothing
	kind   string // tells reasons of an authenticator apart, in place of the text; "": the text does
	outage string // what failed, if the credential may be valid; "": the credential was refused
}

// Unwrap returns the error of the authenticator.
func (r *reason) Unwrap() error { return r.error }

// Refused returns err with the name of the authenticator that refused the credential. It returns nil if err is nil. The name must come
// from the configuration, not from the client.
func Refused(by string, err error) error {
	if err == nil {
		return nil
	}
	return &reason{error: err, by: by}
}

// Detailed returns err with a detail for the log.
func Detailed(err error, detail string) error { return &reason{error: err, detail: detail} }

// Because returns err with its cause, an error about a subject, for the log. If the cause is an outage, so is the result.
func Because(err error, subject string, cause error) error {
	return &reason{error: err, detail: subject + ": " + cause.Error(), outage: describe(cause).Outage}
}

// Outage returns err as the error of an authenticator that cannot work: the credential may be valid. what is the message in the log.
func Outage(by, what string, err error) error { return &reason{error: err, by: by, outage: what} }

// unknown is the error for a token that an authenticator does not accept, although another one may. The text is upstream's.
type unknown struct{}

// Error returns the text.
func (unknown) Error() string { return "invalid bearer token" }

var errInvalidToken error = unknown{}

// Unknown returns the error of an authenticator that does not accept a token, for a reason that only the log shows. To clients, it is
// the same as no error and no response.
func Unknown(by, why string) error { return &reason{error: errInvalidToken, by: by, detail: why} }

// isUnknown reports whether err is nothing but answers of authenticators that do not know a token.
func isUnknown(err error) bool {
	if all, ok := err.(aggregate); ok {
		return isUnknown(all[0]) && isUnknown(all[1])
	}
	return errors.Is(err, errInvalidToken)
}

// Reason is why an authenticator refused a request.
type Reason struct {
	By     string // the authenticator; "": none in particular
	Text   string // may have texts of the client, of any length and with any characters
	Kind   string // equal for the same reason; may have texts of the client
	Outage string // what failed, if the authenticator cannot work; "": the credential was refused
}

// Reasons returns the reasons in an error of an Authenticator or a Token, in the order of the authenticators.
func Reasons(err error) []Reason {
	var out []Reason
	var walk func(err error)
	walk = func(err error) {
		if all, ok := err.(aggregate); ok {
			walk(all[0])
			walk(all[1])
			return
		}
		r := describe(err)
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	walk(err)
	return out
}

// describe returns the reason in one error.
func describe(err error) Reason {
	out, details := Reason{Text: err.Error()}, []string(nil)
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		r, ok := inner.(*reason)
		if !ok {
			continue
		}
		if r.by != "" && out.By == "" {
			out.By = r.by
		}
		if r.detail != "" {
			details = append(details, r.detail)
		}
		if r.kind != "" && out.Kind == "" {
			out.Kind = r.kind
		}
		if r.outage != "" && out.Outage == "" {
			out.Outage = r.outage
		}
	}
	if out.Kind == "" {
		out.Kind = strings.Join(append([]string{out.Text}, details...), ": ")
	}
	if len(details) > 0 {
		out.Text = fmt.Sprintf("%s (%s)", out.Text, strings.Join(details, "; "))
	}
	if out.By != "" {
		out.Text = out.By + ": " + out.Text
	}
	return out
}

// detailBytes bounds a text of the client in a detail.
const detailBytes = 128

// Quote returns a text of a client for a detail: quoted, and shortened if it is long.
func Quote(text string) string {
	if len(text) > detailBytes {
		return fmt.Sprintf("%q…", text[:detailBytes])
	}
	return fmt.Sprintf("%q", text)
}
