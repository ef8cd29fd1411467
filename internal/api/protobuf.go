package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/api/table"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file is the edge that knows protobuf: typed clients send built-in kinds
// and delete options in it, and read them, and the metadata of any kind.

// scaleType and deleteOptionsType are the Go types of bodies that are of no kind that is stored.
var (
	scaleType         = kind.NewGoType(func() runtime.Object { return new(autoscalingv1.Scale) })
	deleteOptionsType = kind.NewGoType(func() runtime.Object { return new(metav1.DeleteOptions) })
)

// fromProtobuf turns a protobuf body into the JSON of the same object, which is of the request's
// kind or a Scale. Objects of other kinds are refused.
func (q *request) fromProtobuf(body []byte) ([]byte, error) {
	name := q.v.Kind.Name
	if q.subresource == "scale" {
		name = objects.ScaleKind.Kind
	}
	return kind.FromProtobuf(body, func(gvk metav1.TypeMeta) (*kind.GoType, error) {
		switch {
		case gvk.Kind != "" && gvk.Kind != name:
			return nil, fmt.Errorf("got %s in protobuf, want %s", gvk.Kind, name)
		case q.subresource == "scale":
			return scaleType, nil
		}
		return q.v.Kind.Behavior.GoType(q.v), nil
	})
}

// deleteOptionsFromProtobuf is fromProtobuf for delete options, which are of
// any group.
func deleteOptionsFromProtobuf(body []byte) ([]byte, error) {
	return kind.FromProtobuf(body, func(gvk metav1.TypeMeta) (*kind.GoType, error) {
		if gvk.Kind != "" && gvk.Kind != "DeleteOptions" {
			return nil, fmt.Errorf("got %s in protobuf, want DeleteOptions", gvk.Kind)
		}
		return deleteOptionsType, nil
	})
}

// acceptsProtobuf reports whether the request's kind can be sent in protobuf. A Scale always can,
// whatever it scales.
func (q *request) acceptsProtobuf() bool { return q.subresource == "scale" || q.givesProtobuf() }

// givesProtobuf reports whether answers can be in protobuf, which goes by the kind alone, be it about a Scale.
func (q *request) givesProtobuf() bool {
	return q.v.Kind.Behavior.HasGoType()
}

// protobufStreamHeader is the media type of watches.
var protobufStreamHeader = []string{encoding.Protobuf + ";stream=watch"}

// messages renders the objects of a version as protobuf messages without the envelope of Kubernetes
// (runtime.Unknown). Lists have them like this; elsewhere they are put into an envelope. It
// implements cache.Renderer, so that an object is encoded once for all clients that read and watch
// it.
type messages kind.Version

// Identity implements cache.Renderer.
func (m *messages) Identity() *meta.RendererID { return &(*kind.Version)(m).Messages }

// Render implements cache.Renderer.
func (m *messages) Render(raw []byte, rev int64) (*meta.View, error) {
	v := (*kind.Version)(m)
	view, err := v.Render(raw, rev)
	if err != nil {
		return nil, err
	}
	message, err := kind.Message(view.JSON, v.NewTyped())
	if err != nil {
		return nil, err
	}
	return &meta.View{JSON: message}, nil
}

// partials renders the metadata of a version's objects in the same way.
type partials kind.Version

// Identity implements cache.Renderer.
func (m *partials) Identity() *meta.RendererID { return &(*kind.Version)(m).Partials }

// Waits implements cache.Waiter.
func (m *partials) Waits() bool { return (*kind.Version)(m).Waits() }

// Render implements cache.Renderer.
func (m *partials) Render(raw []byte, rev int64) (*meta.View, error) {
	view, err := (*kind.Version)(m).Render(raw, rev)
	if err != nil {
		return nil, err
	}
	return m.of(view)
}

// of returns the metadata of what an object is in JSON.
func (m *partials) of(view *meta.View) (*meta.View, error) {
	message, err := kind.Message(table.AppendPartial(nil, view.JSON, "v1"), new(metav1.PartialObjectMetadata))
	if err != nil {
		return nil, err
	}
	return &meta.View{JSON: message}, nil
}

// message returns an object, or its metadata if the client wants that, as a message without an
// envelope.
func (q *request) message(obj *cache.Object) ([]byte, error) {
	if q.accept.Form == encoding.Object {
		view, err := obj.View((*messages)(q.v))
		if err != nil {
			return nil, err
		}
		return view.JSON, nil
	}
	by := (*partials)(q.v)
	if view := obj.Known(by); view != nil {
		return view.JSON, nil
	}
	view, err := obj.View(q.v) // a webhook may have been asked for it already
	if err != nil {
		return nil, err
	}
	if view, err = by.of(view); err != nil {
		return nil, err
	}
	return obj.Remember(by, view).JSON, nil
}

// sendMessage answers with an object, or its metadata.
func (q *request) sendMessage(code int, message []byte) error {
	apiVersion, name := q.v.APIVersion(), q.kind.Name
	if q.accept.Form != encoding.Object {
		apiVersion, name = table.MetaGroup+q.accept.Meta, table.Partial
	}
	a := q.reply(code, protobufHeader)
	defer a.end()
	a.size = kind.ProtobufSize(apiVersion, name, len(message))
	if err := addEnvelope(&a.Pieces, apiVersion, name, message); err != nil {
		return a.fail(err)
	}
	return a.finish()
}

// Fields of every list message.
const (
	listMetaTag  = 1<<3 | 2
	listItemsTag = 2<<3 | 2
)

// sendProtobufList answers with a page of objects, or of their metadata. Messages that are not
// remembered are made twice: the first time for the length in front of them.
func (q *request) sendProtobufList(p *page) error {
	apiVersion, name := q.v.APIVersion(), q.kind.ListKind
	if q.accept.Form != encoding.Object {
		apiVersion, name = table.MetaGroup+q.accept.Meta, table.PartialList
	}
	m := metav1.ListMeta{ResourceVersion: p.version, Continue: p.next}
	if p.remain > 0 {
		m.RemainingItemCount = &p.remain
	}
	metadata, err := m.Marshal()
	if err != nil {
		return err
	}
	size := kind.FieldSize(len(metadata))
	err = p.each(func(obj *cache.Object) error {
		message, err := q.message(obj)
		size += kind.FieldSize(len(message))
		return err
	})
	if err != nil {
		return err
	}
	a := q.reply(http.StatusOK, protobufHeader)
	defer a.end()
	a.size = kind.ProtobufSize(apiVersion, name, size)
	a.B = kind.AppendProtobufStart(a.B, apiVersion, name, size)
	a.B = appendField(a.B, listMetaTag, metadata)
	err = p.each(func(obj *cache.Object) error {
		message, err := q.message(obj)
		if err != nil {
			return err
		}
		a.B = binary.AppendUvarint(append(a.B, listItemsTag), uint64(len(message)))
		return a.Share(message)
	})
	if err != nil {
		return a.fail(err)
	}
	a.B = append(a.B, kind.ProtobufEnd...)
	return a.finish()
}

// appendField appends a field of bytes in protobuf's format.
func appendField(b []byte, tag byte, value []byte) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// typeOf returns an empty Go object for the kind in a JSON text: any kind in answers, except lists
// of objects.
func (q *request) typeOf(text []byte) (runtime.Object, error) {
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, text); err != nil {
		return nil, err
	}
	switch name := d.Root().Get("kind").Text(); {
	case name == "Status":
		return new(metav1.Status), nil
	case name == "PartialObjectMetadata":
		return new(metav1.PartialObjectMetadata), nil
	case name == "PartialObjectMetadataList":
		return new(metav1.PartialObjectMetadataList), nil
	case name == objects.ScaleKind.Kind:
		return new(autoscalingv1.Scale), nil
	case q.v != nil && name == q.v.Kind.Name && q.givesProtobuf():
		return q.v.NewTyped(), nil
	default:
		return nil, fmt.Errorf("%s cannot be written as protobuf", name)
	}
}

// sendAsProtobuf answers with the protobuf of the object in a JSON text.
func (q *request) sendAsProtobuf(code int, text []byte) {
	obj, err := q.typeOf(text)
	var body []byte
	if err == nil {
		body, err = kind.ToProtobuf(text, obj)
	}
	if err != nil {
		q.accept = encoding.Answer{}
		q.fail(status.Internal(errors.Join(errors.New("encoding the answer"), err)))
		return
	}
	q.sendBytes(code, protobufHeader, body)
}

// Fields of a watch's event.
const (
	eventTypeTag   = 1<<3 | 2
	eventObjectTag = 2<<3 | 2
	rawTag         = 1<<3 | 2
)

// addFrame adds an event of a watch: its length, and a message that holds the object in its envelope.
func addFrame(p *stream.Pieces, event, apiVersion, name string, message []byte) error {
	object := kind.ProtobufSize(apiVersion, name, len(message))
	raw := kind.FieldSize(object)
	p.B = binary.BigEndian.AppendUint32(p.B, uint32(kind.FieldSize(len(event))+kind.FieldSize(raw)))
	p.B = append(binary.AppendUvarint(append(p.B, eventTypeTag), uint64(len(event))), event...)
	p.B = binary.AppendUvarint(append(p.B, eventObjectTag), uint64(raw))
	p.B = binary.AppendUvarint(append(p.B, rawTag), uint64(object))
	return addEnvelope(p, apiVersion, name, message)
}

// addEnvelope adds a message in its envelope.
func addEnvelope(p *stream.Pieces, apiVersion, name string, message []byte) error {
	p.B = kind.AppendProtobufStart(p.B, apiVersion, name, len(message))
	if err := p.Share(message); err != nil {
		return err
	}
	p.B = append(p.B, kind.ProtobufEnd...)
	return nil
}

// appendFrameOf appends the frame of an event whose object is in JSON.
func (q *request) appendFrameOf(b []byte, event string, text []byte) ([]byte, error) {
	obj, err := q.typeOf(text)
	if err != nil {
		return b, err
	}
	object, err := kind.ToProtobuf(text, obj)
	if err != nil {
		return b, err
	}
	return appendWatchEvent(b, event, object)
}

// appendWatchEvent appends an event as a frame: its length in four bytes, and the message.
func appendWatchEvent(b []byte, event string, object []byte) ([]byte, error) {
	e := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	text, err := e.Marshal()
	if err != nil {
		return b, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(slices.Grow(b, len(text)), text...), nil
}
