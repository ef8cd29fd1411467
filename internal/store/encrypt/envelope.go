package encrypt

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// envelope is a value of the provider kms in version 2, as it is stored after its prefix: a protobuf message.
type envelope struct {
	data        []byte            // 1: the encrypted value
	keyID       string            // 2: the plugin's name of its key
	seed        []byte            // 3: the encrypted seed, or key
	annotations map[string][]byte // 4: what else the plugin wants to know for decryption
	derived     bool              // 5: data has 32 bytes in front, from which and the seed its key is derived (1); otherwise the key is in seed (0)
}

const (
	fieldData protowire.Number = iota + 1
	fieldKeyID
	fieldSeed
	fieldAnnotations
	fieldType
)

// appendField appends a field of bytes in protobuf's format. An empty field is left out.
func appendField(dst []byte, field protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), b)
}

// appendIdentity appends all fields but the first: those that identify the seed.
func (e *envelope) appendIdentity(dst []byte) []byte {
	dst = appendField(dst, fieldKeyID, []byte(e.keyID))
	dst = appendField(dst, fieldSeed, e.seed)
	for _, k := range slices.Sorted(maps.Keys(e.annotations)) {
		entry := appendField(nil, 1, []byte(k))
		dst = appendField(dst, fieldAnnotations, appendField(entry, 2, e.annotations[k]))
	}
	if e.derived {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldType, protowire.VarintType), 1)
	}
	return dst
}

var errEnvelope = errors.New("the stored data is no message of a KMS provider")

// parseEnvelope reads an envelope. Its parts are parts of b.
func parseEnvelope(b []byte) (*envelope, error) {
	e := &envelope{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, errEnvelope
		}
		b = b[n:]
		switch {
		case kind == protowire.BytesType && field <= fieldAnnotations:
			value, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil, errEnvelope
			}
			b = b[n:]
			if err := e.set(field, value); err != nil {
				return nil, err
			}
		case kind == protowire.VarintType && field == fieldType:
			value, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return nil, errEnvelope
			}
			b = b[n:]
			if value > 1 {
				return nil, fmt.Errorf("unknown encryptedDEKSourceType: %d", value)
			}
			e.derived = value == 1
		default:
			n := protowire.ConsumeFieldValue(field, kind, b)
			if n < 0 {
				return nil, errEnvelope
			}
			b = b[n:]
		}
	}
	return e, e.check()
}

// set stores a field. Fields with other numbers are ignored, as by every reader of protobuf.
func (e *envelope) set(field protowire.Number, value []byte) error {
	switch field {
	case fieldData:
		e.data = value
	case fieldKeyID:
		e.keyID = string(value)
	case fieldSeed:
		e.seed = value
	case fieldAnnotations:
		return e.annotate(value)
	}
	return nil
}

// annotate adds an entry of the annotations.
func (e *envelope) annotate(b []byte) error {
	var key string
	value := []byte{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			return errEnvelope
		}
		b = b[n:]
		part, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errEnvelope
		}
		b = b[n:]
		switch field {
		case 1:
			key = string(part)
		case 2:
			value = part
		}
	}
	if e.annotations == nil {
		e.annotations = map[string][]byte{}
	}
	e.annotations[key] = value
	return nil
}
