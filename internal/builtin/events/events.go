// Package events describes events: the kind of the core group and the one of events.k8s.io, whose objects are the same.
package events

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes events. The core group and events.k8s.io have a kind each for the same
// objects, which are stored as the former.

// eventTTL is the time after which an event is deleted.
const eventTTL = time.Hour

// Kinds returns the kind of the core group, which is stored, and the one of events.k8s.io.
func Kinds() (core, events describe.Description) {
	core = describe.Description{
		Kind: "Event", Plural: "events", ShortNames: []string{"ev"}, Traits: kind.Traits{CreateOnUpdate: true, TTL: eventTTL, NoDependents: true, Convert: convertEvent},
		Versions: describe.V1[corev1.Event](nil), ValidName: describe.Segment, AnyFinalizer: true,
		Fields:  eventFields("involvedObject", "reportingComponent", sourceOf),
		Columns: eventColumns("involvedObject", "source", "message", "firstTimestamp", "lastTimestamp", "count"),
		Check:   checkEvent,
	}
	events = core
	events.Group, events.ValidName, events.AnyFinalizer = "events.k8s.io", nil, false
	events.Versions = describe.V1[eventsv1.Event](nil)
	events.Fields = eventFields("regarding", "reportingController", func(obj jsondoc.Value) string {
		return obj.At("deprecatedSource", "component").Text()
	})
	events.Columns = eventColumns("regarding", "deprecatedSource", "note", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
	return core, events
}

// sourceOf returns the value with which the field selector "source" is compared.
func sourceOf(obj jsondoc.Value) string {
	if s := obj.At("source", "component").Text(); s != "" {
		return s
	}
	return obj.Get("reportingComponent").Text()
}

// eventFields returns the selectable fields. Their paths differ between the two kinds.
func eventFields(object, controller string, source func(jsondoc.Value) string) []kind.Selectable {
	var fields []kind.Selectable
	for _, member := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		f := kind.NewSelectable("." + object + "." + member)
		fields = append(fields, f)
	}
	return append(fields,
		kind.NewSelectable(".reason"), kind.NewSelectable(".type"),
		kind.Selectable{JSONPath: "." + controller, Label: controller, Path: []string{controller}},
		kind.Selectable{JSONPath: ".source", Label: "source", Value: source})
}

// eventColumns returns the columns. The paths of the members differ between the two kinds.
func eventColumns(object, source, note, first, last, count string) []kind.Column {
	docs := corev1.Event{}.SwaggerDoc()
	return []kind.Column{
		describe.Timed("Last Seen", docs["lastTimestamp"], func(obj jsondoc.Value, now time.Time) string { return lastSeen(obj, first, last, now) }),
		{Name: "Type", Type: "string", JSONPath: ".type", Description: docs["type"]},
		{Name: "Reason", Type: "string", JSONPath: ".reason", Description: docs["reason"]},
		describe.Cell("Object", docs["involvedObject"], func(obj jsondoc.Value) string { return aboutCell(obj.Get(object)) }),
		describe.Wide(describe.Cell("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"], func(obj jsondoc.Value) string { return obj.At(object, "fieldPath").Text() })),
		describe.Wide(describe.Cell("Source", docs["source"], func(obj jsondoc.Value) string { return eventSource(obj, source) })),
		{Name: "Message", Type: "string", JSONPath: "." + note, Description: docs["message"]},
		describe.Wide(describe.Timed("First Seen", docs["firstTimestamp"], func(obj jsondoc.Value, now time.Time) string { return firstSeen(obj, first, now) })),
		describe.Wide(describe.Counted("Count", docs["count"], func(obj jsondoc.Value) string { return eventCount(obj, count) })),
		describe.Wide(kind.Column{Name: "Name", Type: "string", Format: "name", JSONPath: ".metadata.name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}),
	}
}

// convertEvent converts an event from one kind to the other.
func convertEvent(text []byte, to *kind.Version) ([]byte, error) {
	var m metav1.TypeMeta
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.APIVersion == to.APIVersion() {
		return text, nil
	}
	if to.Kind.Group == "" {
		var e eventsv1.Event
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &e); err != nil {
			return nil, err
		}
		return json.Marshal(toCoreEvent(&e))
	}
	var e corev1.Event
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &e); err != nil {
		return nil, err
	}
	return json.Marshal(fromCoreEvent(&e))
}

// toCoreEvent converts an event to the core group.
func toCoreEvent(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Action: e.Action, Reason: e.Reason, InvolvedObject: e.Regarding, Related: e.Related, Message: e.Note, Type: e.Type,
		Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp,
		Count: e.DeprecatedCount,
	}
	if e.Series != nil {
		out.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

// fromCoreEvent converts an event to events.k8s.io.
func fromCoreEvent(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Action: e.Action, Reason: e.Reason, Regarding: e.InvolvedObject, Related: e.Related, Note: e.Message, Type: e.Type,
		DeprecatedSource: e.Source, DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp,
		DeprecatedCount: e.Count,
	}
	if e.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return out
}

// eventOf returns an event in the form of the core group.
func eventOf(v *kind.Version, d *jsondoc.Doc) (*corev1.Event, error) {
	text := d.AppendJSON(nil, d.Root().Node)
	if v.Kind.Group == "" {
		e := new(corev1.Event)
		return e, kjson.UnmarshalCaseSensitivePreserveInts(text, e)
	}
	var e eventsv1.Event
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &e); err != nil {
		return nil, err
	}
	return toCoreEvent(&e), nil
}

// checkEvent checks an event. The rules for events.k8s.io are stricter.
func checkEvent(v *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	e, err := eventOf(v, d)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := checkAnyEvent(e, v.Kind.Group == "")
	if v.Kind.Group == "" {
		return errs
	}
	if old == nil {
		return append(errs, checkNewEvent(e)...)
	}
	was, err := eventOf(v, old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return append(errs, checkEventUpdate(e, was, d.Root(), old.Root())...)
}

// Bounds of an event's texts, in bytes.
const (
	maxEventText = 128
	maxEventNote = 1024
)

// checkAnyEvent checks the rules for events of both groups.
func checkAnyEvent(e *corev1.Event, first bool) field.ErrorList {
	var errs field.ErrorList
	namespace, about := field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace
	mismatch := field.Invalid(namespace, about, "does not match event.namespace")
	if e.EventTime.IsZero() {
		if about == "" && e.Namespace != "" && e.Namespace != metav1.NamespaceDefault || about != "" && e.Namespace != about {
			errs = append(errs, mismatch)
		}
	} else {
		if about == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
			errs = append(errs, mismatch)
		}
		errs = append(errs, checkEventTexts(e, first)...)
	}
	for _, msg := range validation.IsDNS1123Subdomain(e.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), e.Namespace, msg))
	}
	return errs
}

// checkEventTexts checks the texts that an event of events.k8s.io must have.
func checkEventTexts(e *corev1.Event, first bool) field.ErrorList {
	var errs field.ErrorList
	controller := field.NewPath("reportingController")
	if first { // the version in which the field has another name
		controller = field.NewPath("reportingComponent")
	}
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, msg := range validation.IsQualifiedName(e.ReportingController) {
		errs = append(errs, field.Invalid(controller, e.ReportingController, msg))
	}
	for _, t := range []struct {
		name, text string
		max        int
	}{
		{"reportingInstance", e.ReportingInstance, maxEventText}, {"action", e.Action, maxEventText},
		{"reason", e.Reason, maxEventText}, {"message", e.Message, maxEventNote},
	} {
		if t.text == "" && t.name != "message" {
			errs = append(errs, field.Required(field.NewPath(t.name), ""))
		}
		if len(t.text) > t.max {
			errs = append(errs, field.Invalid(field.NewPath(t.name), "", fmt.Sprintf("can have at most %v characters", t.max)))
		}
	}
	return errs
}

// checkNewEvent checks an event that is created through events.k8s.io.
func checkNewEvent(e *corev1.Event) field.ErrorList {
	errs := checkSeries(e)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	for _, old := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !e.FirstTimestamp.IsZero()}, {"lastTimestamp", !e.LastTimestamp.IsZero()},
		{"count", e.Count != 0}, {"source", e.Source != corev1.EventSource{}},
	} {
		if old.set {
			errs = append(errs, field.Invalid(field.NewPath(old.name), "", "needs to be unset"))
		}
	}
	return errs
}

// checkSeries checks the series of an event.
func checkSeries(e *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if e.Series == nil {
		return nil
	}
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if e.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// checkEventUpdate refuses changes of an event other than those of its series.
func checkEventUpdate(e, was *corev1.Event, new, old jsondoc.Value) field.ErrorList {
	var errs field.ErrorList
	if !jsondoc.Equal(new.Get("series"), old.Get("series")) {
		errs = append(errs, checkSeries(e)...)
	}
	for _, n := range []struct {
		member, name string // the latter as errors print it
		shown        any
	}{
		{"regarding", "involvedObject", describe.InGoNames(e.InvolvedObject)}, {"reason", "reason", e.Reason}, {"note", "message", e.Message},
		{"deprecatedSource", "source", describe.InGoNames(e.Source)}, {"deprecatedFirstTimestamp", "firstTimestamp", e.FirstTimestamp},
		{"deprecatedLastTimestamp", "lastTimestamp", e.LastTimestamp}, {"deprecatedCount", "count", e.Count}, {"type", "type", e.Type},
		{"eventTime", "eventTime", e.EventTime}, {"action", "action", e.Action}, {"related", "related", describe.InGoNames(e.Related)},
		{"reportingController", "reportingController", e.ReportingController}, {"reportingInstance", "reportingInstance", e.ReportingInstance},
	} {
		if !jsondoc.Equal(new.Get(n.member), old.Get(n.member)) {
			errs = append(errs, field.Invalid(field.NewPath(n.name), n.shown, "field is immutable"))
		}
	}
	return errs
}

// aboutCell returns the object that an event is about.
func aboutCell(ref jsondoc.Value) string {
	return strings.ToLower(ref.Get("kind").Text()) + "/" + ref.Get("name").Text()
}

// firstSeen returns the time since the event happened first.
func firstSeen(obj jsondoc.Value, first string, now time.Time) string {
	if t := obj.Get(first); t.Kind() == jsondoc.String {
		return describe.Age(t.Text(), now)
	}
	return describe.Age(obj.Get("eventTime").Text(), now)
}

// lastSeen returns the time since the event happened last.
func lastSeen(obj jsondoc.Value, first, last string, now time.Time) string {
	switch series := obj.At("series", "lastObservedTime"); {
	case series.Kind() == jsondoc.String:
		return describe.Age(series.Text(), now)
	case obj.Get(last).Kind() == jsondoc.String:
		return describe.Age(obj.Get(last).Text(), now)
	}
	return firstSeen(obj, first, now)
}

// eventSource returns the component and the host that reported the event.
func eventSource(obj jsondoc.Value, source string) string {
	component, host := obj.At(source, "component").Text(), obj.At(source, "host").Text()
	if component == "" {
		component, host = obj.Get("reportingComponent").Text(), obj.Get("reportingInstance").Text()
		if component == "" {
			component = obj.Get("reportingController").Text()
		}
	}
	if host == "" {
		return component
	}
	return component + ", " + host
}

// eventCount returns how many times the event happened.
func eventCount(obj jsondoc.Value, count string) string {
	if n := obj.At("series", "count"); n.Kind() == jsondoc.Int {
		return strconv.FormatInt(n.Int(), 10)
	}
	if n := obj.Get(count).Int(); n > 0 {
		return strconv.FormatInt(n, 10)
	}
	return "1"
}
