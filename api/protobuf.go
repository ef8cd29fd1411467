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

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/status"
)

// This file is the edge that knows protobuf: typed clients send built-in kinds
// and delete options in it, and read them, and the metadata of any kind.

// fromProtobuf turns a protobuf body into the JSON of the same object, which
// is of the request's kind or a Scale. What is of another kind is refused.
func (q *request) fromProtobuf(body []byte) ([]byte, error) {
	name := q.v.Kind.Name
	if q.subresource == "scale" {
		name = scaleKind.Kind
	}
	return kind.FromProtobuf(body, func(gvk metav1.TypeMeta) (runtime.Object, error) {
		switch {
		case gvk.Kind != "" && gvk.Kind != name:
			return nil, fmt.Errorf("got %s in protobuf, want %s", gvk.Kind, name)
		case q.subresource == "scale":
			return new(autoscalingv1.Scale), nil
		}
		return q.v.Kind.Builtin.New(q.v), nil
	})
}

// deleteOptionsFromProtobuf is fromProtobuf for delete options, which are of
// any group.
func deleteOptionsFromProtobuf(body []byte) ([]byte, error) {
	return kind.FromProtobuf(body, func(gvk metav1.TypeMeta) (runtime.Object, error) {
		if gvk.Kind != "" && gvk.Kind != "DeleteOptions" {
			return nil, fmt.Errorf("got %s in protobuf, want DeleteOptions", gvk.Kind)
		}
		return new(metav1.DeleteOptions), nil
	})
}

// takesProtobuf reports whether the request's kind can be sent in protobuf. A Scale always can, of whatever it is the scale.
func (q *request) takesProtobuf() bool { return q.subresource == "scale" || q.givesProtobuf() }

// givesProtobuf reports whether answers can be in protobuf, which goes by the kind alone, be it about a Scale.
func (q *request) givesProtobuf() bool {
	return q.v.Kind.Builtin != nil && q.v.Kind.Builtin.New != nil
}

// protobufStreamHeader is the media type of watches.
var protobufStreamHeader = []string{typeProtobuf + ";stream=watch"}

// messages renders the objects of a version as bare messages: what stands in
// lists as it is and elsewhere in an envelope. It implements cache.Renderer, so
// that an object is turned into protobuf once for all who read and watch it.
type messages struct{ v *kind.Version }

// Render implements cache.Renderer.
func (m *messages) Render(raw []byte, rev int64) (*cache.View, error) {
	view, err := m.v.Render(raw, rev)
	if err != nil {
		return nil, err
	}
	message, err := kind.Message(view.JSON, m.v.Kind.Builtin.New(m.v))
	if err != nil {
		return nil, err
	}
	return &cache.View{JSON: message}, nil
}

// message is an object as a bare message.
func (q *request) message(obj *cache.Object) ([]byte, error) {
	m, ok := q.h.messages.Load(q.v)
	if !ok {
		m, _ = q.h.messages.LoadOrStore(q.v, &messages{q.v})
	}
	view, err := obj.View(m.(*messages))
	if err != nil {
		return nil, err
	}
	return view.JSON, nil
}

// sendMessage answers with an object.
func (q *request) sendMessage(code int, message []byte) error {
	body, err := kind.WrapProtobuf(message, q.v.APIVersion(), q.kind.Name)
	if err != nil {
		return err
	}
	q.sendBytes(code, protobufHeader, body)
	return nil
}

// Fields of every list message.
const (
	listMetaTag  = 1<<3 | 2
	listItemsTag = 2<<3 | 2
)

// sendProtobufList answers with a page of objects.
func (q *request) sendProtobufList(p *page) error {
	m := metav1.ListMeta{ResourceVersion: p.version, Continue: p.next}
	if p.remain > 0 {
		m.RemainingItemCount = &p.remain
	}
	text, err := m.Marshal()
	if err != nil {
		return err
	}
	list := appendField(nil, listMetaTag, text)
	for _, obj := range p.objects {
		message, err := q.message(obj)
		if err != nil {
			return err
		}
		list = appendField(list, listItemsTag, message)
	}
	body, err := kind.WrapProtobuf(list, q.v.APIVersion(), q.kind.ListKind)
	if err != nil {
		return err
	}
	q.sendBytes(http.StatusOK, protobufHeader, body)
	return nil
}

func appendField(b []byte, tag byte, value []byte) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// typeOf is an empty Go object of what a text says it is: anything that is
// answered to a request, lists of objects excepted.
func (q *request) typeOf(text []byte) (runtime.Object, error) {
	d := doc.Get()
	defer d.Release()
	if err := doc.Parse(d, text); err != nil {
		return nil, err
	}
	switch name := d.Root().Get("kind").Text(); {
	case name == "Status":
		return new(metav1.Status), nil
	case name == "PartialObjectMetadata":
		return new(metav1.PartialObjectMetadata), nil
	case name == "PartialObjectMetadataList":
		return new(metav1.PartialObjectMetadataList), nil
	case name == scaleKind.Kind:
		return new(autoscalingv1.Scale), nil
	case q.v != nil && name == q.v.Kind.Name && q.givesProtobuf():
		return q.v.Kind.Builtin.New(q.v), nil
	default:
		return nil, fmt.Errorf("%s cannot be written as protobuf", name)
	}
}

// sendAsProtobuf answers with what a JSON text says.
func (q *request) sendAsProtobuf(code int, text []byte) {
	obj, err := q.typeOf(text)
	var body []byte
	if err == nil {
		body, err = kind.ToProtobuf(text, obj)
	}
	if err != nil {
		q.accept = accept{}
		q.fail(status.Internal(errors.Join(errors.New("encoding the answer"), err)))
		return
	}
	q.sendBytes(code, protobufHeader, body)
}

// appendFrame appends an event of a watch: its length, and a message that holds
// the object in its envelope.
func (q *request) appendFrame(b []byte, event, apiVersion, name string, message []byte) ([]byte, error) {
	object, err := kind.WrapProtobuf(message, apiVersion, name)
	if err != nil {
		return b, err
	}
	return appendWatchEvent(b, event, object)
}

// appendFrameOf is appendFrame for an object in JSON.
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

func appendWatchEvent(b []byte, event string, object []byte) ([]byte, error) {
	e := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	text, err := e.Marshal()
	if err != nil {
		return b, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(slices.Grow(b, len(text)), text...), nil
}
