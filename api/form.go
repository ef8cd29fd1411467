package api

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/api/admit"
	"github.com/keelson-io/keelson/api/encoding"
	"github.com/keelson-io/keelson/api/stream"
	"github.com/keelson-io/keelson/api/table"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/status"
)

// This file makes tables and metadata-only objects of objects.

// rows makes the rows of one answer's tables.
type rows struct {
	q       *request
	table   *table.Table
	include table.Include
	now     time.Time
	bare    bool // the columns have been named already
}

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

// newTable prepares tables, and checks the query parameters for them.
func (q *request) newTable() (*rows, error) {
	t := &rows{q: q, now: time.Now()}
	switch include := metav1.IncludeObjectPolicy(q.query.Get("includeObject")); include {
	case "", metav1.IncludeMetadata:
		t.include = table.IncludeMetadata
	case metav1.IncludeNone:
		t.include = table.IncludeNone
	case metav1.IncludeObject:
		t.include = table.IncludeObject
	default:
		return nil, status.BadRequest("Unable to convert to Table as requested: includeObject: Invalid value: %q: must be 'Metadata', 'Object', 'None', or empty", include)
	}
	t.use(table.New(q.v))
	return t, nil
}

// use sets what the columns are.
func (t *rows) use(columns *table.Table) {
	columns.In(t.q.accept.Meta)
	t.table = columns
}

// appendStart begins a table, up to its rows.
func (t *rows) appendStart(b []byte, metadata []byte) ([]byte, error) {
	b = append(b, `{"kind":"Table","apiVersion":"meta.k8s.io/`...)
	b = append(b, t.q.accept.Meta...)
	b = append(b, `","metadata":`...)
	b = append(b, metadata...)
	b = append(b, `,"columnDefinitions":`...)
	if t.bare {
		b = append(b, "null"...)
	} else {
		columns, err := json.Marshal(t.table.Columns())
		if err != nil {
			return nil, err
		}
		b = append(b, columns...)
	}
	return append(b, `,"rows":[`...), nil
}

// appendRow appends the row of an object.
func (t *rows) appendRow(b []byte, object []byte) ([]byte, error) {
	if err := t.q.ctx.Err(); err != nil { // a row may have many columns
		return nil, err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, object); err != nil {
		return nil, err
	}
	return t.table.AppendRow(b, d.Root(), t.include, t.now), nil
}

// appendOne appends a table of one object.
func (t *rows) appendOne(b []byte, object []byte) ([]byte, error) {
	metadata := []byte("{}") // of a dry run's new object
	if version := quotedVersion(object); version != nil {
		metadata = append(append([]byte(`{"resourceVersion":`), version...), '}')
	}
	b, err := t.appendStart(b, metadata)
	if err != nil {
		return nil, err
	}
	if b, err = t.appendRow(b, object); err != nil {
		return nil, err
	}
	return append(b, "]}"...), nil
}

// sendOne answers with a table of one object.
func (t *rows) sendOne(code int, object []byte) error {
	room := t.q.room(t.q.ctx)
	defer room.Leave()
	if cost := rowCost(object); cost > admit.BuildFree {
		if err := room.Enter(int64(cost)); err != nil {
			return err
		}
	}
	b, err := t.appendOne(nil, object)
	if err != nil {
		return err
	}
	room.Shrink(len(b))
	if t.q.accept.YAML {
		room.Leave() // YAML needs room of its own, and must not wait for this
	}
	t.q.send(code, b)
	return nil
}

// rowCost returns about how many bytes of memory a row needs at most while it is made.
func rowCost(object []byte) int {
	if len(object) < admit.BuildFree/32 {
		return 0
	}
	return 4*len(object) + 32*values(object)
}

// The kind of an object that is another's metadata only.
const (
	metaGroup   = "meta.k8s.io/"
	partialName = "PartialObjectMetadata"

	partialListName = partialName + "List"
)

// appendPartial appends an object's metadata as an object of its own. The
// metadata is not decoded, its bytes are cut out.
func appendPartial(b []byte, object []byte, version string) []byte {
	b, metadata := appendPartialStart(b, object, version)
	return append(append(b, metadata...), '}')
}

// appendPartialStart appends what stands before the metadata, which it returns.
func appendPartialStart(b []byte, object []byte, version string) (begun, metadata []byte) {
	b = append(b, `{"kind":"`+partialName+`","apiVersion":"`+metaGroup...)
	b = append(append(b, version...), `","metadata":`...)
	if m := member(object, "metadata"); m != nil {
		return b, m
	}
	return b, []byte("{}")
}

// sharePartial is appendPartial for pieces.
func sharePartial(p *stream.Pieces, object []byte, version string) error {
	var metadata []byte
	p.B, metadata = appendPartialStart(p.B, object, version)
	if err := p.Share(metadata); err != nil {
		return err
	}
	p.B = append(p.B, '}')
	return nil
}

// member cuts the bytes of one member out of a JSON object; nil if there is
// none.
func member(object []byte, name string) []byte {
	d := jsondoc.Get()
	defer d.Release()
	s := d.Scan(object)
	if s.ObjectStart() != nil {
		return nil
	}
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if err != nil || !more {
			return nil
		}
		if d.Str(key) != name {
			if s.Skip() != nil {
				return nil
			}
			continue
		}
		if _, err := s.Kind(); err != nil { // skips the space before the value
			return nil
		}
		start := s.Offset()
		if s.Skip() != nil {
			return nil
		}
		return object[start:s.Offset()]
	}
}

// quotedVersion returns an object's resource version, quoted; nil if it has none.
func quotedVersion(object []byte) []byte {
	if m := member(object, "metadata"); m != nil {
		if v := member(m, "resourceVersion"); v != nil {
			return v
		}
	}
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
