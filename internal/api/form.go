package api

import (
	"slices"
	"strings"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/status"
)

// This file decides on the form of answers, and answers with tables and metadata-only objects.

// negotiate finds the encoding of the answer.
func (q *request) negotiate() (encoding.Answer, error) {
	if q.v == nil {
		return encoding.Negotiate(q.r, false, true)
	}
	if header := q.r.Header.Get("Accept"); q.kind.Behavior.HasGoType() && header != "" {
		produced := []string{encoding.JSON, encoding.YAML, encoding.Protobuf, encoding.JSON + encoding.Streamed, encoding.Protobuf + encoding.Streamed}
		if q.verb != "list" && q.verb != "watch" {
			produced = produced[:3]
		}
		if !negotiation.RouterAccepts(header, produced) {
			q.unrouted()
			return encoding.Answer{Pretty: negotiation.WantsPretty(q.r)}, encoding.Unacceptable(produced)
		}
	}
	return encoding.Negotiate(q.r, q.givesProtobuf(), q.kind.Storage.Kind.StoragePrefix != crd.Prefix || q.subresource == "")
}

// unrouted removes the warning of a deprecated version: upstream warns only on paths that its
// router knows.
func (q *request) unrouted() {
	q.warnings = slices.DeleteFunc(q.warnings, func(text string) bool { return text == q.v.Warning })
}

// newTable prepares the tables of an answer, and checks the query parameters for them.
func (q *request) newTable(columns *table.Table) (*table.Rows, error) {
	return table.NewRows(columns, q.accept.Meta, q.query.Get("includeObject"))
}

// sendTable answers with a table of one object.
func (q *request) sendTable(code int, t *table.Rows, object []byte) error {
	room := q.room(q.ctx)
	defer room.Leave()
	if cost := rowCost(object); cost > admit.BuildFree {
		if err := room.Enter(int64(cost)); err != nil {
			return err
		}
	}
	b, err := t.AppendOne(q.ctx, nil, object)
	if err != nil {
		return err
	}
	room.Shrink(len(b))
	if q.accept.YAML {
		room.Leave() // YAML needs room of its own, and must not wait for this
	}
	q.send(code, b)
	return nil
}

// rowCost returns about how many bytes of memory a row needs at most while it is made.
func rowCost(object []byte) int {
	if len(object) < admit.BuildFree/32 {
		return 0
	}
	return 4*len(object) + 32*values(object)
}

// sharePartial is table.AppendPartial for pieces.
func sharePartial(p *stream.Pieces, object []byte, version string) error {
	var metadata []byte
	p.B, metadata = table.AppendPartialStart(p.B, object, version)
	if err := p.Share(metadata); err != nil {
		return err
	}
	p.B = append(p.B, '}')
	return nil
}

// notList refuses to print a list as one object.
func (q *request) notList() error {
	of := "unstructured.UnstructuredList"
	if name := q.goName(); name != "" {
		of = name + "List"
	}
	return status.NotAcceptable("you requested PartialObjectMetadata, but the requested object is a list (*" + of + ")")
}

// goName is what upstream calls the Go type of a kind's objects when they are of no version, "" if they have none.
func (q *request) goName() string {
	if !q.kind.Behavior.HasGoType() {
		return ""
	}
	of := q.kind.Storage.Kind
	group, _, _ := strings.Cut(of.Group, ".")
	switch {
	case group == "":
		group = "core"
	case group == "internal":
		group = "apiserverinternal"
	}
	return group + "." + of.Name
}

// noList is its counterpart: the refusal to show an object of a Go type as a list.
func noList(of string) error {
	return status.NotAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (" + of + ")")
}
