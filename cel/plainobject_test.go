package cel

import (
	"context"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// Whatever is in an object that a host fills in, expressions that read its members
// directly come to what those come to that read them by computed names.
func TestPlainObjects(t *testing.T) {
	l, err := NewLanguage(AuthorizationConditions())
	if err != nil {
		t.Fatal(err)
	}
	text := StringValue
	inner := func(members ...Value) Value {
		var r Record
		for i := 0; i < len(members); i += 2 {
			r.Put(members[i], members[i+1])
		}
		return r.Value()
	}
	list := func(items ...Value) Value {
		var l Items
		for _, item := range items {
			l.Add(item)
		}
		return l.Value()
	}
	attributes := inner(text("namespace"), text("täst"), text("verb"), text("get"), text("name"), val.NullValue, text("group"), val.IntValue(7))
	many := &val.MapBox{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "user"} {
		many.Put(text(name), text("ann"))
	}
	objects := map[string]Value{
		"usual":    inner(text("user"), text("ann"), text("groups"), list(text("dev"), text("ops")), text("resourceAttributes"), attributes),
		"empty":    inner(),
		"odd":      inner(text("user"), val.IntValue(1), text("groups"), list(text("dev"), val.IntValue(3), text("ops")), text("resourceAttributes"), text("no object")),
		"failing":  inner(text("user"), val.Errorf("broken"), text("groups"), list(val.Errorf("broken"), text("ops")), text("resourceAttributes"), val.Errorf("broken")),
		"nulls":    inner(text("user"), val.NullValue, text("groups"), val.NullValue, text("resourceAttributes"), val.NullValue),
		"indexed":  val.MapValue(many),
		"computed": LazyObject([]string{"user"}, func(string) (Value, error) { return text("ann"), nil }),
		"null":     val.NullValue,
		"a text":   text("ann"),
	}
	for _, row := range []struct{ direct, computed string }{
		{`request.user == 'ann'`, `dyn(request)['us' + 'er'] == 'ann'`},
		{`request.user != 'bob'`, `dyn(request)['us' + 'er'] != 'bob'`},
		{`request.user in ['ann', 'bob']`, `dyn(request)['us' + 'er'] in ['ann', 'bob']`},
		{`request.user.startsWith('a')`, `dyn(request)['us' + 'er'].startsWith('a')`},
		{`request.user.matches('^a')`, `dyn(request)['us' + 'er'].matches('^a')`},
		{`request.user in request.groups`, `dyn(request)['us' + 'er'] in dyn(request)['gro' + 'ups']`},
		{`'ops' in request.groups`, `'ops' in dyn(request)['gro' + 'ups']`},
		{`!('dev' in request.groups)`, `!('dev' in dyn(request)['gro' + 'ups'])`},
		{`request.resourceAttributes.namespace == 'täst'`, `dyn(request)['resource' + 'Attributes'].namespace == 'täst'`},
		{`request.resourceAttributes.name == request.resourceAttributes.group`, `dyn(request)['resource' + 'Attributes'].name == dyn(request)['resource' + 'Attributes'].group`},
		{`request.resourceAttributes.verb + request.user == 'getann'`, `dyn(request)['resource' + 'Attributes'].verb + dyn(request)['us' + 'er'] == 'getann'`},
		{`size(request.resourceAttributes.namespace) == 4`, `size(dyn(request)['resource' + 'Attributes'].namespace) == 4`},
		{`has(request.resourceAttributes) || request.user == 'x'`, `has(dyn({'r': request}['r']).resourceAttributes) || dyn(request)['us' + 'er'] == 'x'`},
		{`has(request.resourceAttributes.namespace)`, `has(dyn(request)['resource' + 'Attributes'].namespace)`},
		{`has(request.resourceAttributes.version) ? request.user == 'ann' : request.groups == []`, `has(dyn(request)['resource' + 'Attributes'].version) ? dyn(request)['us' + 'er'] == 'ann' : dyn(request)['gro' + 'ups'] == []`},
	} {
		direct, err := l.CompileExpression(row.direct)
		if err != nil {
			t.Fatal(err)
		}
		computed, err := l.CompileExpression(row.computed)
		if err != nil {
			t.Fatal(err)
		}
		for name, object := range objects {
			vars := Vars{RequestVariable: object}
			got, _, gotErr := direct.Eval(context.Background(), vars, 0)
			want, _, wantErr := computed.Eval(context.Background(), vars, 0)
			if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() || gotErr == nil && got.Bool() != want.Bool() {
				t.Errorf("%s, %s: got %v, %v, want %v, %v", row.direct, name, got, gotErr, want, wantErr)
			}
		}
	}
}
