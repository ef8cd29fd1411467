package api

import (
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file makes objects of the bodies of writes.

// wholeObject reads what a request writes as a whole: the form of its answer, its
// object, and its options, in upstream's order of complaints.
func (q *request) wholeObject(options func(url.Values) (*meta.WriteOptions, error)) (body *objects.Body, o *meta.WriteOptions, err error) {
	if q.accept, err = q.negotiate(); err != nil {
		return nil, nil, err
	}
	media := q.objectMedia()
	if media == "" && q.r.Method == http.MethodPost && encoding.ContentType(q.r) != encoding.Protobuf {
		return nil, nil, unknownMedia()
	}
	sent, err := q.holds.ReadBody(q.ctx)
	if err != nil {
		return nil, nil, err
	}
	if o, err = options(q.query); err != nil {
		return nil, nil, err
	}
	q.mayExplain(o)
	if media == "" {
		return nil, nil, unknownMedia()
	}
	if body, err = q.readObject(sent, media, o.FieldValidation); err != nil {
		return body, o, err
	}
	return body, o, q.workOnValue(q.ref().Version.DecodedBytes(body.JSON))
}

// workOnValue waits until there is memory for the Go value of so many bytes that the body becomes.
func (q *request) workOnValue(bytes int) error {
	if bytes == 0 {
		return nil
	}
	return q.holds.WorkOnValue(q.ctx, bytes)
}

// mayExplain decides whether explanations may show the stored object: to callers who may read it.
func (q *request) mayExplain(o *meta.WriteOptions) {
	if o.Explain == "" {
		return
	}
	a := q.attrs
	a.Verb, a.Trace = "get", nil
	o.ExplainOld = q.h.Authz.Authorize(q.ctx, &a).Decision == authz.Allow
}

// objectMedia returns the media type of the body, "" if no object can come in it.
func (q *request) objectMedia() string {
	media := encoding.ContentType(q.r)
	if media == encoding.JSON || media == encoding.YAML || media == encoding.Protobuf && q.acceptsProtobuf() {
		return media
	}
	return ""
}

// unknownMedia returns the error for a body of another type than those of objects.
func unknownMedia() error {
	return encoding.Unsupported(encoding.JSON, encoding.YAML, encoding.Protobuf)
}

// readObject reads a body that is an object, in JSON or else.
func (q *request) readObject(sent []byte, media, validation string) (*objects.Body, error) {
	o, ref := &objects.Body{Sent: sent, JSON: sent}, q.ref()
	var err error
	switch media {
	case encoding.YAML:
		strict := validation != metav1.FieldValidationIgnore
		if o.JSON, o.Duplicates, err = yamljson.JSON(q.ctx, sent, strict); err != nil {
			if bad := objects.YAMLBound(err); bad != nil {
				return nil, bad
			}
			return nil, ref.Unreadable(sent, err)
		}
	case encoding.Protobuf:
		if o.JSON, err = q.fromProtobuf(sent); err != nil {
			return nil, ref.Unreadable(sent, err)
		}
	}
	return o, nil
}

// decode turns a body into a document, and warns of its unknown and duplicate fields or refuses
// them, as the request asks to.
func (q *request) decode(d *jsondoc.Doc, b *objects.Body, validation string) error {
	ref := q.ref()
	warnings, err := ref.Decode(d, b, validation)
	q.warn(warnings...)
	return err
}
