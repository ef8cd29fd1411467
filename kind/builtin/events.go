package builtin

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes events: two kinds, of the core group and of events.k8s.io,
// of the same objects, which are stored as the first.

// eventTTL is how long events are kept.
const eventTTL = time.Hour

func eventKinds(lib *library) []*kind.Kind {
	desc := description{
		kind: "Event", plural: "events", short: []string{"ev"}, createOnUpdate: true, ttl: eventTTL, unowned: true,
		versions: v1[corev1.Event](nil), name: segment,
		fields:  eventFields("involvedObject", "reportingComponent", sourceOf),
		columns: eventColumns("involvedObject", "source", "message", "firstTimestamp", "lastTimestamp", "count"),
		check:   checkEvent, convert: convertEvent,
	}
	core := newKind(lib, desc)
	desc.group, desc.name = "events.k8s.io", nil
	desc.versions = v1[eventsv1.Event](nil)
	desc.fields = eventFields("regarding", "reportingController", func(obj doc.Value) string {
		return obj.At("deprecatedSource", "component").Text()
	})
	desc.columns = eventColumns("regarding", "deprecatedSource", "note", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
	events := newKind(lib, desc)
	events.made.Storage.IsStorage = false
	events.made.Storage = core.made.Storage
	events.made.All = append(events.made.All, core.made.Storage)
	events.by[core.made.Storage] = core.by[core.made.Storage]
	return []*kind.Kind{core.made, events.made}
}

// sourceOf is what the field "source" of an event is compared with.
func sourceOf(obj doc.Value) string {
	if s := obj.At("source", "component").Text(); s != "" {
		return s
	}
	return obj.Get("reportingComponent").Text()
}

// eventFields are the selectable fields, where they stand in one of the kinds.
func eventFields(object, controller string, source func(doc.Value) string) []kind.Selectable {
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

func eventColumns(object, source, note, first, last, count string) []kind.Column {
	docs := corev1.Event{}.SwaggerDoc()
	return []kind.Column{
		timed("Last Seen", docs["lastTimestamp"], func(obj doc.Value, now time.Time) string { return lastSeen(obj, first, last, now) }),
		{Name: "Type", Type: "string", JSONPath: ".type", Description: docs["type"]},
		{Name: "Reason", Type: "string", JSONPath: ".reason", Description: docs["reason"]},
		cell("Object", docs["involvedObject"], func(obj doc.Value) string { return aboutCell(obj.Get(object)) }),
		wide(cell("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"], func(obj doc.Value) string { return obj.At(object, "fieldPath").Text() })),
		wide(cell("Source", docs["source"], func(obj doc.Value) string { return eventSource(obj, source) })),
		{Name: "Message", Type: "string", JSONPath: "." + note, Description: docs["message"]},
		wide(timed("First Seen", docs["firstTimestamp"], func(obj doc.Value, now time.Time) string { return firstSeen(obj, first, now) })),
		wide(counted("Count", docs["count"], func(obj doc.Value) string { return eventCount(obj, count) })),
		wide(kind.Column{Name: "Name", Type: "string", Format: "name", JSONPath: ".metadata.name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}),
	}
}

// convertEvent turns an event of one kind into one of the other.
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

// eventOf is an event as the core group has it.
func eventOf(v *kind.Version, d *doc.Doc) (*corev1.Event, error) {
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

// checkEvent checks an event; one of events.k8s.io strictly.
func checkEvent(v *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
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

// checkEventTexts checks what an event of the newer sort must say.
func checkEventTexts(e *corev1.Event, first bool) field.ErrorList {
	var errs field.ErrorList
	controller := field.NewPath("reportingController")
	if first { // in which version it has another name
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

func checkEventUpdate(e, was *corev1.Event, new, old doc.Value) field.ErrorList {
	var errs field.ErrorList
	if !doc.Equal(new.Get("series"), old.Get("series")) {
		errs = append(errs, checkSeries(e)...)
	}
	for _, n := range []struct {
		member, name string // and what errors call it
		shown        any
	}{
		{"regarding", "involvedObject", goNamed{e.InvolvedObject}}, {"reason", "reason", e.Reason}, {"note", "message", e.Message},
		{"deprecatedSource", "source", goNamed{e.Source}}, {"deprecatedFirstTimestamp", "firstTimestamp", e.FirstTimestamp},
		{"deprecatedLastTimestamp", "lastTimestamp", e.LastTimestamp}, {"deprecatedCount", "count", e.Count}, {"type", "type", e.Type},
		{"eventTime", "eventTime", e.EventTime}, {"action", "action", e.Action}, {"related", "related", goNamed{e.Related}},
		{"reportingController", "reportingController", e.ReportingController}, {"reportingInstance", "reportingInstance", e.ReportingInstance},
	} {
		if !doc.Equal(new.Get(n.member), old.Get(n.member)) {
			errs = append(errs, field.Invalid(field.NewPath(n.name), n.shown, "field is immutable"))
		}
	}
	return errs
}
