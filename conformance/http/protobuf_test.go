package http

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// This file makes answers in protobuf comparable: numbers and times in them
// have lengths.

var metadata = func() runtime.Serializer {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err)
	}
	return protobuf.NewSerializer(s, s)
}()

// spelledOut is a body in protobuf as JSON, with a line that says what it was.
// Any other body stays as it is.
func spelledOut(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body
	}
	o, _, err := metadata.Decode(body, nil, nil)
	if err != nil {
		return body
	}
	text, err := json.Marshal(o)
	if err != nil {
		return body
	}
	return append(append([]byte(`"protobuf" `), text...), '\n')
}

// spelledOutFrames does the same to a stream of events, each after its length.
func spelledOutFrames(body []byte) []byte {
	var out []byte
	for len(body) >= 4 {
		n := int(binary.BigEndian.Uint32(body))
		if n > len(body)-4 {
			break
		}
		var event metav1.WatchEvent
		if event.Unmarshal(body[4:4+n]) != nil {
			break
		}
		out = fmt.Appendf(out, "%q ", event.Type)
		out = append(out, spelledOut(event.Object.Raw)...)
		body = body[4+n:]
	}
	return append(out, body...)
}
