package describe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file makes columns.

// Cell returns a column whose text is computed.
func Cell(name, description string, text func(obj jsondoc.Value) string) kind.Column {
	return Timed(name, description, func(obj jsondoc.Value, _ time.Time) string { return text(obj) })
}

// Timed returns a column whose text depends on the current time.
func Timed(name, description string, text func(obj jsondoc.Value, now time.Time) string) kind.Column {
	return kind.Column{Name: name, Type: "string", Description: description, Cell: text}
}

// At returns a column with the value at a path: a text, or with another type a number or boolean.
func At(name, typ, path, description string) kind.Column {
	return kind.Column{Name: name, Type: typ, JSONPath: path, Description: description}
}

// Named sets the format name in a column.
func Named(c kind.Column) kind.Column {
	c.Format = "name"
	return c
}

// Wide gives a column priority 1, so that clients show it on demand only.
func Wide(c kind.Column) kind.Column {
	c.Priority = 1
	return c
}

// AgeColumn returns the column Age, which every kind has.
func AgeColumn() kind.Column { return ageAt("Age", "metadata", "creationTimestamp") }

// ageAt returns a column with the age of the time at a path.
func ageAt(name string, path ...string) kind.Column {
	return Timed(name, kind.AgeColumn().Description, func(obj jsondoc.Value, now time.Time) string {
		return Age(obj.At(path...).Text(), now)
	})
}

// CreatedColumn returns the column Created At.
func CreatedColumn() kind.Column {
	return At("Created At", "date", ".metadata.creationTimestamp", kind.AgeColumn().Description)
}

// Counted returns a column of numbers.
func Counted(name, description string, text func(obj jsondoc.Value) string) kind.Column {
	c := Cell(name, description, text)
	c.Number = true
	return c
}

// Integers sets the format of columns of numbers to int32.
func Integers(columns ...kind.Column) []kind.Column {
	for i := range columns {
		columns[i].Type = "integer"
	}
	return columns
}

// Truth returns a column with a boolean, false if there is none.
func Truth(name, description string, path ...string) kind.Column {
	c := Cell(name, description, TruthAt(path...))
	c.Type = "boolean"
	return c
}

// Size returns a column with the number of members or items at a path.
func Size(name, description string, paths ...[]string) kind.Column {
	return Counted(name, description, func(obj jsondoc.Value) string {
		n := 0
		for _, p := range paths {
			n += obj.At(p...).Len()
		}
		return strconv.Itoa(n)
	})
}

// Sizes is Size with the type integer for the column.
func Sizes(name, description string, path ...string) kind.Column {
	return Integers(Size(name, description, path))[0]
}

// Ratio returns a column with two numbers, such as 1/3.
func Ratio(name, description string, part, whole []string) kind.Column {
	return Cell(name, description, func(obj jsondoc.Value) string {
		return Number(obj.At(part...)) + "/" + Number(obj.At(whole...))
	})
}

// Number returns an integer as text, 0 if there is none.
func Number(v jsondoc.Value) string { return strconv.FormatInt(v.Int(), 10) }

// Either returns a text, or else another.
func Either(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// TextOf returns a text, a number or a boolean as text.
func TextOf(v jsondoc.Value) string {
	switch v.Kind() {
	case jsondoc.String:
		return v.Text()
	case jsondoc.Int:
		return Number(v)
	case jsondoc.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return ""
}

// OrNone returns a column with a text, or a word for none.
func OrNone(name, description, none string, path ...string) kind.Column {
	return Cell(name, description, func(obj jsondoc.Value) string { return Either(TextOf(obj.At(path...)), none) })
}

// NumberOrNone returns a column with a number, or the text <none>.
func NumberOrNone(name, description string, path ...string) kind.Column {
	c := OrNone(name, description, "<none>", path...)
	c.Number = true
	return c
}

// ContainerColumns returns the columns with the containers and images of the pods at a path.
func ContainerColumns(path ...string) []kind.Column {
	list := func(member string) func(jsondoc.Value) string {
		return func(obj jsondoc.Value) string {
			var out []string
			for _, c := range obj.At(path...).Get("containers").Items() {
				out = append(out, c.Get(member).Text())
			}
			return strings.Join(out, ",")
		}
	}
	return []kind.Column{
		Wide(Cell("Containers", "Names of each container in the template.", list("name"))),
		Wide(Cell("Images", "Images referenced by each container in the template.", list("image"))),
	}
}

// TemplateColumns returns the columns of kinds with pod templates.
func TemplateColumns(description string) []kind.Column {
	return append(ContainerColumns("spec", "template", "spec"), SelectorColumn(description, "spec", "selector"))
}

// SelectorColumn returns the column with the label selector at a path.
func SelectorColumn(description string, path ...string) kind.Column {
	return Wide(Cell("Selector", description, func(obj jsondoc.Value) string { return SelectorText(obj.At(path...)) }))
}

// SelectorText returns a label selector in the syntax of kubectl's --selector, <none> for none.
func SelectorText(v jsondoc.Value) string {
	if v.Kind() != jsondoc.Object {
		return "<none>"
	}
	var s metav1.LabelSelector
	if kjson.UnmarshalCaseSensitivePreserveInts(v.AppendJSON(nil), &s) != nil {
		return "<error>"
	}
	return metav1.FormatLabelSelector(&s)
}

// MapText returns a map of labels as text.
func MapText(v jsondoc.Value, none string) string {
	var pairs []string
	for key, value := range v.Members() {
		pairs = append(pairs, key+"="+value.Text())
	}
	if pairs == nil {
		return none
	}
	return strings.Join(pairs, ",")
}

// PortText returns the text for a list of ports.
func PortText(p jsondoc.Value) string {
	text := Number(p.Get("port"))
	if n := p.Get("nodePort").Int(); n > 0 {
		text = fmt.Sprintf("%s:%d", text, n)
	}
	return text + "/" + p.Get("protocol").Text()
}

// FirstFew joins the first few texts and adds how many more there are.
func FirstFew(all []string, few int) string {
	switch {
	case len(all) == 0:
		return "<unset>"
	case len(all) <= few:
		return strings.Join(all, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(all[:few], ","), len(all)-few)
}

// Balancers returns the addresses of the load balancers of a service or ingress.
func Balancers(obj jsondoc.Value) string {
	var out []string
	for _, in := range obj.At("status", "loadBalancer", "ingress").Items() {
		out = append(out, Either(in.Get("ip").Text(), in.Get("hostname").Text()))
	}
	return strings.Join(out, ",")
}

// TruthAt returns a function that returns the boolean at a path as text, false if there is none.
func TruthAt(path ...string) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string {
		if obj.At(path...).Bool() {
			return "true"
		}
		return "false"
	}
}

// TextAt returns a function that returns the text at a path.
func TextAt(path ...string) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string { return obj.At(path...).Text() }
}

// Age returns the time since t as tables show it, such as 5d3h.
func Age(text string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// NumberAt returns a function that returns the number at a path, in decimal.
func NumberAt(path ...string) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string { return Number(obj.At(path...)) }
}

// ReplicaColumns returns the columns of kinds that keep a number of pods.
func ReplicaColumns(spec, status map[string]string) []kind.Column {
	counts := Integers(
		Counted("Desired", spec["replicas"], NumberAt("spec", "replicas")),
		Counted("Current", status["replicas"], NumberAt("status", "replicas")),
		Counted("Ready", status["readyReplicas"], NumberAt("status", "readyReplicas")),
	)
	return append(append(counts, AgeColumn()), TemplateColumns(spec["selector"])...)
}

// HasCondition reports whether a condition is true.
func HasCondition(obj jsondoc.Value, typ string) bool {
	for _, c := range obj.At("status", "conditions").Items() {
		if c.Get("type").Text() == typ && c.Get("status").Text() == "True" {
			return true
		}
	}
	return false
}
