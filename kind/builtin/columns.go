package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
)

// This file makes columns.

// cell is a column whose text is computed.
func cell(name, description string, text func(obj doc.Value) string) kind.Column {
	return timed(name, description, func(obj doc.Value, _ time.Time) string { return text(obj) })
}

// timed is a column whose text depends on what time it is.
func timed(name, description string, text func(obj doc.Value, now time.Time) string) kind.Column {
	return kind.Column{Name: name, Type: "string", Description: description, Cell: text}
}

// at is a column that shows what stands at a path: a text, or a number or truth
// as type says.
func at(name, typ, path, description string) kind.Column {
	return kind.Column{Name: name, Type: typ, JSONPath: path, Description: description}
}

// named says that a column is of names.
func named(c kind.Column) kind.Column {
	c.Format = "name"
	return c
}

// wide makes a column one that is shown on demand.
func wide(c kind.Column) kind.Column {
	c.Priority = 1
	return c
}

// ageColumn is the column that every kind has.
func ageColumn() kind.Column { return ageAt("Age", "metadata", "creationTimestamp") }

// ageAt is a column of how long ago a time was.
func ageAt(name string, path ...string) kind.Column {
	return timed(name, kind.AgeColumn().Description, func(obj doc.Value, now time.Time) string {
		return age(obj.At(path...).Text(), now)
	})
}

// createdColumn is the column of kinds that show when they were created.
func createdColumn() kind.Column {
	return at("Created At", "date", ".metadata.creationTimestamp", kind.AgeColumn().Description)
}

// counted is a column of numbers.
func counted(name, description string, text func(obj doc.Value) string) kind.Column {
	c := cell(name, description, text)
	c.Number = true
	return c
}

// integers makes columns ones that say that they are of numbers.
func integers(columns ...kind.Column) []kind.Column {
	for i := range columns {
		columns[i].Type = "integer"
	}
	return columns
}

// truth is a column of a truth, false where it is not said.
func truth(name, description string, path ...string) kind.Column {
	c := cell(name, description, truthAt(path...))
	c.Type = "boolean"
	return c
}

// size is a column of how many there are of something.
func size(name, description string, paths ...[]string) kind.Column {
	return counted(name, description, func(obj doc.Value) string {
		n := 0
		for _, p := range paths {
			n += obj.At(p...).Len()
		}
		return strconv.Itoa(n)
	})
}

// sizes is a column of how many there are of something that says that it is of numbers.
func sizes(name, description string, path ...string) kind.Column {
	return integers(size(name, description, path))[0]
}

// ratio is a column of two numbers, such as 1/3.
func ratio(name, description string, part, whole []string) kind.Column {
	return cell(name, description, func(obj doc.Value) string {
		return number(obj.At(part...)) + "/" + number(obj.At(whole...))
	})
}

// number is an integer as text, 0 if there is none.
func number(v doc.Value) string { return strconv.FormatInt(v.Int(), 10) }

// either is a text, or else another.
func either(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// textOf is a text, a number or a truth as text.
func textOf(v doc.Value) string {
	switch v.Kind() {
	case doc.String:
		return v.Text()
	case doc.Int:
		return number(v)
	case doc.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return ""
}

// orNone is a column of a text, or of a word for none.
func orNone(name, description, none string, path ...string) kind.Column {
	return cell(name, description, func(obj doc.Value) string { return either(textOf(obj.At(path...)), none) })
}

// numberOrNone is a column of a number, or of the word <none>.
func numberOrNone(name, description string, path ...string) kind.Column {
	c := orNone(name, description, "<none>", path...)
	c.Number = true
	return c
}

// containerColumns name the containers and images of the pods at a path.
func containerColumns(path ...string) []kind.Column {
	list := func(member string) func(doc.Value) string {
		return func(obj doc.Value) string {
			var out []string
			for _, c := range obj.At(path...).Get("containers").Items() {
				out = append(out, c.Get(member).Text())
			}
			return strings.Join(out, ",")
		}
	}
	return []kind.Column{
		wide(cell("Containers", "Names of each container in the template.", list("name"))),
		wide(cell("Images", "Images referenced by each container in the template.", list("image"))),
	}
}

// templateColumns are the columns of kinds with templates of pods.
func templateColumns(description string) []kind.Column {
	return append(containerColumns("spec", "template", "spec"), selectorColumn(description, "spec", "selector"))
}

// selectorColumn shows the label selector at a path.
func selectorColumn(description string, path ...string) kind.Column {
	return wide(cell("Selector", description, func(obj doc.Value) string { return selectorText(obj.At(path...)) }))
}

// selectorText is a label selector as people write it; <none> if there is none.
func selectorText(v doc.Value) string {
	if v.Kind() != doc.Object {
		return "<none>"
	}
	var s metav1.LabelSelector
	if kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), &s) != nil {
		return "<error>"
	}
	return metav1.FormatLabelSelector(&s)
}

// mapText is a map of labels as text.
func mapText(v doc.Value, none string) string {
	var pairs []string
	for key, value := range v.Members() {
		pairs = append(pairs, key+"="+value.Text())
	}
	if pairs == nil {
		return none
	}
	return strings.Join(pairs, ",")
}

// portText is how tables show a list of ports.
func portText(p doc.Value) string {
	text := number(p.Get("port"))
	if n := p.Get("nodePort").Int(); n > 0 {
		text = fmt.Sprintf("%s:%d", text, n)
	}
	return text + "/" + p.Get("protocol").Text()
}
