package val

// This file computes the sizes for cost estimates.

// maxRequest is the size in bytes of the largest document that is accepted.
const maxRequest = 3 * 1024 * 1024

// SetSizes computes MaxElements and MinSize from t's kind and format, its children, whose sizes
// must be set, and the bounds of the schema. max is maxLength, maxItems or maxProperties, nil if
// the schema has none. enum is the length in bytes of the longest string of an enum, 0 if there is
// no enum.
func (t *Type) SetSizes(max *int64, enum int) {
	bound, bounded := uint64(0), max != nil
	if bounded && *max > 0 {
		bound = uint64(*max)
	}
	t.MaxElements, t.MinSize = 0, 1
	t.setCertain()
	switch t.Kind {
	case Dyn:
		t.MaxElements = textElements(bound, bounded, 0)
	case Bool:
		t.MinSize = 4
	case String:
		t.MinSize, t.MaxElements = 2, textElements(bound, bounded, enum)
	case Bytes:
		t.MinSize, t.MaxElements = 2, maxRequest-2
		if bounded {
			t.MaxElements = bound
		}
	case Duration:
		t.MinSize, t.MaxElements = 3, 32
	case Timestamp:
		t.MinSize, t.MaxElements = 21, 32
		if t.Date {
			t.MinSize, t.MaxElements = 12, 12
		}
	case List:
		t.MinSize, t.MaxElements = 2, (maxRequest-2)/(t.Elem.MinSize+1)
		if bounded {
			t.MaxElements = bound
		}
	case Map:
		t.MinSize, t.MaxElements = 2, (maxRequest-2)/(t.Elem.MinSize+6)
		if bounded {
			t.MaxElements = bound
		}
	case Object:
		t.MinSize = 2
		for _, f := range t.Fields {
			if f.Required && !f.HasDefault && f.Type != nil {
				t.MinSize += uint64(len(f.Name)) + f.Type.MinSize + 4
			}
		}
	}
}

// textElements returns the greatest size of a string in bytes: maxLength counts code points of up
// to 4 bytes.
func textElements(bound uint64, bounded bool, enum int) uint64 {
	switch {
	case bounded:
		return 4 * bound
	case enum > 0:
		return uint64(enum)
	}
	return maxRequest - 2
}
