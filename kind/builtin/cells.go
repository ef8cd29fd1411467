package builtin

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-io/keelson/doc"
)

// This file computes cells of tables.

// roleRefCell names the role of a binding.
func roleRefCell(obj doc.Value) string {
	ref := obj.Get("roleRef")
	return ref.Get("kind").Text() + "/" + ref.Get("name").Text()
}

// subjectsCell names the subjects of a kind.
func subjectsCell(kind string) func(doc.Value) string {
	return func(obj doc.Value) string {
		var names []string
		for _, s := range obj.Get("subjects").Items() {
			if s.Get("kind").Text() != kind {
				continue
			}
			name := s.Get("name").Text()
			if kind == "ServiceAccount" {
				name = s.Get("namespace").Text() + "/" + name
			}
			names = append(names, name)
		}
		return strings.Join(names, ", ")
	}
}

// subdomain is the rule for most names.
var subdomain = validation.NameIsDNSSubdomain

// wellFormed reports whether a value of a secret, in base64, is of the form that
// the secret's type asks for.
func wellFormed(kind corev1.SecretType, value string) error {
	if kind != corev1.SecretTypeDockercfg && kind != corev1.SecretTypeDockerConfigJson {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &map[string]any{})
}

// age is how long ago a time was, for people.
func age(text string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// aboutCell names what an event is about.
func aboutCell(ref doc.Value) string {
	return strings.ToLower(ref.Get("kind").Text()) + "/" + ref.Get("name").Text()
}

func firstSeen(obj doc.Value, first string, now time.Time) string {
	if t := obj.Get(first); t.Kind() == doc.String {
		return age(t.Text(), now)
	}
	return age(obj.Get("eventTime").Text(), now)
}

func lastSeen(obj doc.Value, first, last string, now time.Time) string {
	switch series := obj.At("series", "lastObservedTime"); {
	case series.Kind() == doc.String:
		return age(series.Text(), now)
	case obj.Get(last).Kind() == doc.String:
		return age(obj.Get(last).Text(), now)
	}
	return firstSeen(obj, first, now)
}

func eventSource(obj doc.Value, source string) string {
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

func eventCount(obj doc.Value, count string) string {
	if n := obj.At("series", "count"); n.Kind() == doc.Int {
		return strconv.FormatInt(n.Int(), 10)
	}
	if n := obj.Get(count).Int(); n > 0 {
		return strconv.FormatInt(n, 10)
	}
	return "1"
}
