package table

import "github.com/keelson-io/keelson/jsondoc"

// This file prints objects as metadata only, by their bytes.

// The kind of an object that is another's metadata only.
const (
	MetaGroup = "meta.k8s.io/"
	Partial   = "PartialObjectMetadata"

	PartialList = Partial + "List"
)

// AppendPartial appends an object's metadata as an object of its own. The
// metadata is not decoded, its bytes are cut out.
func AppendPartial(b []byte, object []byte, version string) []byte {
	b, metadata := AppendPartialStart(b, object, version)
	return append(append(b, metadata...), '}')
}

// AppendPartialStart appends what stands before the metadata, which it returns.
func AppendPartialStart(b []byte, object []byte, version string) (begun, metadata []byte) {
	b = append(b, `{"kind":"`+Partial+`","apiVersion":"`+MetaGroup...)
	b = append(append(b, version...), `","metadata":`...)
	if m := member(object, "metadata"); m != nil {
		return b, m
	}
	return b, []byte("{}")
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

// resourceVersion returns an object's resource version, quoted; nil if it has none.
func resourceVersion(object []byte) []byte {
	if m := member(object, "metadata"); m != nil {
		if v := member(m, "resourceVersion"); v != nil {
			return v
		}
	}
	return nil
}
