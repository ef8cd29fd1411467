package jsondoc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// This file applies JSON patches (RFC 6902). Outcomes and error texts are
// those of gopkg.in/evanphx/json-patch.v4, which clients know from Kubernetes,
// its leniencies included: a missing value is null, replace may add a member,
// indices may be negative. Unlike there, test compares what values mean and
// not how they are written.

// MaxCopyBytes is how much the copy operations of one patch may add.
const MaxCopyBytes = 3 << 20

// JSONPatch returns target changed by the JSON patch. The error is a
// [*PatchFormatError] if the patch is not an array of objects, the context's if
// ctx ends between two operations, and else that of an operation that does not
// apply.
func JSONPatch(ctx context.Context, target, patch []byte) ([]byte, error) {
	t, p := Get(), Get()
	defer t.Release()
	defer p.Release()
	if err := parsePatch(p, patch); err != nil {
		return nil, err
	}
	if err := Parse(t, target); err != nil {
		return nil, ErrBadDocument
	}
	if k := t.root.Kind(); k != Object && k != Array {
		return nil, ErrBadDocument
	}
	doc := patcher{root: &part{v: t.Root()}}
	written := writtenValues(patch)
	for i, op := range p.Root().Items() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if written != nil {
			doc.written = written[i]
		}
		if err := doc.apply(op); err != nil {
			return nil, err
		}
	}
	return doc.root.append(make([]byte, 0, len(target)+len(patch))), nil
}

// writtenValues returns the texts of the values in a patch's operations, nil if no object in the patch
// has a duplicate key. Duplicate keys are reported for the result, so the texts must keep them.
func writtenValues(patch []byte) []*written {
	d := Get()
	defer d.Release()
	if _, ok := d.parseOnce(patch); ok {
		return nil
	}
	var ops []map[string]json.RawMessage
	if json.Unmarshal(patch, &ops) != nil {
		return nil
	}
	left := rereads * len(patch)
	out := make([]*written, len(ops))
	for i, op := range ops {
		out[i] = &written{op["value"], &left}
	}
	return out
}

// JSONPatchLen returns the number of operations of a JSON patch. For another text the error is a
// [*PatchFormatError].
func JSONPatchLen(patch []byte) (int, error) {
	d := Get()
	defer d.Release()
	if err := parsePatch(d, patch); err != nil {
		return 0, err
	}
	return d.root.Len(), nil
}

// PatchFormatError is a text that is no JSON patch.
type PatchFormatError struct {
	msg   string
	cause error
}

func (e *PatchFormatError) Error() string { return e.msg }

func (e *PatchFormatError) Unwrap() error { return e.cause }

// parsePatch decodes a patch and checks that it is an array of objects.
func parsePatch(p *Doc, patch []byte) error {
	if err := Parse(p, patch); err != nil {
		return &PatchFormatError{err.Error(), err}
	}
	mismatch := func(k Kind, goType string) error {
		name := k.String()
		switch k {
		case Bool:
			name = "bool"
		case Int, Float:
			name = "number"
		}
		return &PatchFormatError{msg: "json: cannot unmarshal " + name + " into Go value of type jsonpatch." + goType}
	}
	if k := p.root.Kind(); k != Array && k != Null {
		return mismatch(k, "Patch")
	}
	for _, op := range p.Root().Items() {
		if k := op.Kind(); k != Object && k != Null {
			return mismatch(k, "Operation")
		}
	}
	return nil
}

// ErrTestFailed is wrapped by the error of a patch that a test operation ends.
var ErrTestFailed = errors.New("test failed")

var (
	errMissing      = errors.New("missing value")
	errInvalidIndex = errors.New("invalid index referenced")
)

// patcher is a document while a patch is applied to it.
type patcher struct {
	root    *part
	copied  int      // bytes that copy operations have added
	written *written // the operation's value as it is written, if members may be there twice
}

func (p *patcher) apply(op Value) error {
	kind := "unknown"
	if v := op.Get("op"); v.Kind() == String {
		kind = v.Text()
	}
	switch kind {
	case "add":
		return p.add(op)
	case "remove":
		return p.remove(op)
	case "replace":
		return p.replace(op)
	case "move":
		return p.move(op)
	case "test":
		return p.test(op)
	case "copy":
		return p.copy(op)
	}
	return fmt.Errorf("Unexpected kind: %s", kind)
}

// pointer is the path or from member of an operation.
func pointer(op Value, name string) (string, error) {
	v := op.Get(name)
	switch v.Kind() {
	case String:
		return v.Text(), nil
	case Absent, Null:
		if name == "from" {
			return "", fmt.Errorf("operation, missing from field: %w", errMissing)
		}
		return "", fmt.Errorf("operation missing path field: %w", errMissing)
	case Int, Float:
		return "", errors.New("json: cannot unmarshal number into Go value of type string")
	case Bool:
		return "", errors.New("json: cannot unmarshal bool into Go value of type string")
	}
	return "", fmt.Errorf("json: cannot unmarshal %v into Go value of type string", v.Kind())
}

// value is the value of an operation; missing is null.
func (p *patcher) value(op Value) *part {
	v := op.Get("value")
	if !v.Exists() {
		v = Value{op.Doc, NullNode}
	}
	return &part{v: v, written: p.written}
}

var unescapeToken = strings.NewReplacer("~1", "/", "~0", "~")

// find returns the array or object that contains the place of a pointer, nil if it is missing, and the
// last token of the pointer. Text before the first slash is ignored.
func (p *patcher) find(pointer string) (holder *part, key string) {
	_, rest, ok := strings.Cut(pointer, "/")
	if !ok {
		return nil, ""
	}
	at := p.root
	for {
		token, tail, more := strings.Cut(rest, "/")
		token = unescapeToken.Replace(token)
		if !more {
			return at, token
		}
		next, err := at.get(token)
		if err != nil || !next.holds() {
			return nil, ""
		}
		at, rest = next, tail
	}
}

func (p *patcher) add(op Value) error {
	path, err := pointer(op, "path")
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", errMissing)
	}
	at, key := p.find(path)
	if at == nil {
		return fmt.Errorf("add operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := at.add(key, p.value(op)); err != nil {
		return fmt.Errorf("error in add for path: '%s': %w", path, err)
	}
	return nil
}

func (p *patcher) remove(op Value) error {
	path, err := pointer(op, "path")
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", errMissing)
	}
	at, key := p.find(path)
	if at == nil {
		return fmt.Errorf("remove operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := at.remove(key); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (p *patcher) replace(op Value) error {
	path, err := pointer(op, "path")
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	if path == "" {
		v := p.value(op)
		if !v.holds() {
			return errors.New("replace operation value must be object or array: %!w(<nil>)")
		}
		p.root = v
		return nil
	}
	at, key := p.find(path)
	if at == nil {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", path, errMissing)
	}
	if err := at.set(key, p.value(op)); err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, errMissing)
	}
	return nil
}

func (p *patcher) move(op Value) error {
	from, err := pointer(op, "from")
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	at, key := p.find(from)
	if at == nil {
		return fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	v, err := at.get(key)
	if err == nil {
		err = at.remove(key)
	}
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	path, err := pointer(op, "path")
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	if at, key = p.find(path); at == nil {
		return fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if err := at.add(key, v); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", path, err)
	}
	return nil
}

func (p *patcher) test(op Value) error {
	path, err := pointer(op, "path")
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	v := p.root
	if path != "" {
		at, key := p.find(path)
		if at == nil {
			return fmt.Errorf("test operation does not apply: is missing path: %s: %w", path, errMissing)
		}
		if v, err = at.get(key); err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", path, err)
		}
	}
	if !v.equal(p.value(op)) {
		return fmt.Errorf("testing value %s failed: %w", path, ErrTestFailed)
	}
	return nil
}

func (p *patcher) copy(op Value) error {
	from, err := pointer(op, "from")
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	at, key := p.find(from)
	if at == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	v, err := at.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := pointer(op, "path")
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", errMissing)
	}
	if at, key = p.find(path); at == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if v != nil {
		p.copied += len(v.append(nil))
	}
	if p.copied > MaxCopyBytes {
		return fmt.Errorf("Unable to complete the copy, the accumulated size increase of copy is %d, exceeding the limit %d", p.copied, MaxCopyBytes)
	}
	if err := at.add(key, v.clone()); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}
