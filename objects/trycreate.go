package objects

import (
	"context"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
)

// This file makes dry runs of creates for which the client gets nothing but the object: a fast path,
// whose plain twin is a request to the API.

// maxTried is the length in bytes of the largest object that TryCreate tries. The API refuses
// bodies that are longer than 3 MiB.
const maxTried = 1 << 20

// TryCreate makes a dry run of the create of an object of a custom kind. It does what the API does
// between authorization and the answer. agent is the User-Agent, body the object in JSON, and
// validation how unknown fields are treated.
//
// If the object is accepted and there is nothing else to say, TryCreate returns true, and *object is what the API would answer;
// object may be nil. In all other cases it returns false, and the caller sends a request: only the API's answers have warnings,
// errors and audit annotations.
func (v *Verbs) TryCreate(ctx context.Context, user *authn.User, agent string, ref Ref, body []byte, validation string, object *[]byte) (ok bool) {
	if !fastpath.TryCreate.On() || len(body) > maxTried || !mayTry(&ref) {
		return false
	}
	// The API answers a panic with an error.
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	d := jsondoc.Get()
	defer d.Release()
	warnings, err := ref.Decode(d, &Body{Sent: body, JSON: body}, validation)
	if err != nil || len(warnings) > 0 {
		return false
	}
	var client quietClient
	out, err := v.Create(ctx, NewCaller(user, agent, &client), ref, d, &meta.WriteOptions{DryRun: true, FieldValidation: validation})
	defer out.Release()
	if err != nil || len(out.Warnings) > 0 || client.hasAnnotations || out.Doc == nil || out.View != nil {
		return false
	}
	if object != nil {
		*object = append(ref.Version.AppendJSON(make([]byte, 0, len(body)+addedRoom), out.Doc), '\n')
	}
	return true
}

// addedRoom is the length in bytes of what a create adds to a small object, mostly managedFields.
const addedRoom = 1 << 10

// mayTry reports whether objects are created without a warning and without a webhook for their
// conversion, at a path that the API has.
func mayTry(r *Ref) bool {
	k := r.Kind
	return !k.Behavior.IsBuiltin && k.Established && k.Conversion == nil && !r.Version.Deprecated && k.Namespaced == (r.Namespace != "")
}

// quietClient is a client without a connection. It implements Client.
type quietClient struct {
	hasAnnotations bool // the request has audit annotations
}

// Annotate implements Client.
func (c *quietClient) Annotate(string, string) { c.hasAnnotations = true }

// AnnotateRequest implements Client.
func (c *quietClient) AnnotateRequest(string, string) { c.hasAnnotations = true }

// MayCreate implements Client. A create does not ask.
func (c *quietClient) MayCreate() error { return nil }

// Work implements Client.
func (c *quietClient) Work(int) error { return nil }
