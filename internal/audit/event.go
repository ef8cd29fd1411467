package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file has the Event of audit.k8s.io/v1 and its text formats.

// Level says how much of a request is recorded.
type Level string

// The levels, in ascending order.
const (
	None            Level = "None"
	Metadata        Level = "Metadata"
	Request         Level = "Request"
	RequestResponse Level = "RequestResponse"
)

var allLevels = []Level{None, Metadata, Request, RequestResponse}

// atLeast reports whether l records at least as much as other.
func (l Level) atLeast(other Level) bool { return l.rank() >= other.rank() }

// rank returns the position of the level in ascending order; unknown levels come first.
func (l Level) rank() int {
	for i, x := range allLevels {
		if x == l {
			return i
		}
	}
	return 0
}

// Stage is a point in the processing of a request.
type Stage string

// The stages.
const (
	RequestReceived  Stage = "RequestReceived"
	ResponseStarted  Stage = "ResponseStarted" // of watches, and of requests that fail authentication
	ResponseComplete Stage = "ResponseComplete"
	Panic            Stage = "Panic"
)

var allStages = []Stage{RequestReceived, ResponseStarted, ResponseComplete, Panic}

// Event is the record of a request at one stage.
type Event struct {
	metav1.TypeMeta
	Level                    Level                      `json:"level"`
	AuditID                  types.UID                  `json:"auditID"`
	Stage                    Stage                      `json:"stage"`
	RequestURI               string                     `json:"requestURI"`
	Verb                     string                     `json:"verb"`
	User                     authenticationv1.UserInfo  `json:"user"`
	ImpersonatedUser         *authenticationv1.UserInfo `json:"impersonatedUser,omitempty"`
	AuthenticationMetadata   *AuthenticationMetadata    `json:"authenticationMetadata,omitempty"`
	SourceIPs                []string                   `json:"sourceIPs,omitempty"`
	UserAgent                string                     `json:"userAgent,omitempty"`
	ObjectRef                *ObjectReference           `json:"objectRef,omitempty"`
	ResponseStatus           *metav1.Status             `json:"responseStatus,omitempty"`
	RequestObject            json.RawMessage            `json:"requestObject,omitempty"`
	ResponseObject           json.RawMessage            `json:"responseObject,omitempty"`
	RequestReceivedTimestamp metav1.MicroTime           `json:"requestReceivedTimestamp"`
	StageTimestamp           metav1.MicroTime           `json:"stageTimestamp"`
	Annotations              map[string]string          `json:"annotations,omitempty"`
}

// AuthenticationMetadata says how an impersonated user was allowed.
type AuthenticationMetadata struct {
	// ImpersonationConstraint is the verb that allowed a constrained impersonation.
	ImpersonationConstraint string `json:"impersonationConstraint,omitempty"`
}

// ObjectReference names the object of a request.
type ObjectReference struct {
	Resource        string    `json:"resource,omitempty"`
	Namespace       string    `json:"namespace,omitempty"`
	Name            string    `json:"name,omitempty"`
	UID             types.UID `json:"uid,omitempty"`
	APIGroup        string    `json:"apiGroup,omitempty"`
	APIVersion      string    `json:"apiVersion,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Subresource     string    `json:"subresource,omitempty"`
}

// embedded returns JSON for an event. A text that is not JSON is encoded as a string.
func embedded(text []byte) json.RawMessage {
	if json.Valid(text) {
		return text
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return nil
	}
	return quoted
}

// withoutManagedFields removes metadata.managedFields from an object, or from the items of a list
// or the objects in a table.
func withoutManagedFields(text []byte) []byte {
	var object map[string]any
	if json.Unmarshal(text, &object) != nil {
		return text
	}
	strip(object)
	for _, list := range []string{"items", "rows"} {
		items, _ := object[list].([]any)
		for _, item := range items {
			o, _ := item.(map[string]any)
			if list == "rows" {
				o, _ = o["object"].(map[string]any)
			}
			strip(o)
		}
	}
	out, err := json.Marshal(object)
	if err != nil {
		return text
	}
	return out
}

// strip removes metadata.managedFields from a decoded object.
func strip(object map[string]any) {
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
}

// panicText returns the text of a panic as upstream records it.
func panicText(what any) string { return fmt.Sprintf("APIServer panic'd: %v", what) }

// legacy returns an event in the format "legacy", one line of text.
func legacy(e *Event) string {
	user, groups := "<none>", "<none>"
	if e.User.Username != "" {
		user = e.User.Username
		if len(e.User.Groups) > 0 {
			groups = quoted(e.User.Groups)
		}
	}
	as, asGroups := "<self>", "<lookup>"
	if e.ImpersonatedUser != nil {
		as = e.ImpersonatedUser.Username
		if e.ImpersonatedUser.Groups != nil {
			asGroups = quoted(e.ImpersonatedUser.Groups)
		}
	}
	namespace, response, ip := "<none>", "<deferred>", "<unknown>"
	if e.ObjectRef != nil && e.ObjectRef.Namespace != "" {
		namespace = e.ObjectRef.Namespace
	}
	if e.ResponseStatus != nil {
		response = strconv.Itoa(int(e.ResponseStatus.Code))
	}
	if len(e.SourceIPs) > 0 {
		ip = e.SourceIPs[0]
	}
	return fmt.Sprintf("%s AUDIT: id=%q stage=%q ip=%q method=%q user=%q groups=%q as=%q asgroups=%q user-agent=%q namespace=%q uri=%q response=\"%s\"",
		e.RequestReceivedTimestamp.Format(time.RFC3339Nano), e.AuditID, e.Stage, ip, e.Verb, user, groups, as, asGroups, e.UserAgent, namespace,
		e.RequestURI, response)
}

// quoted returns a list for the legacy format: each element in quotes, separated by commas.
func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return strings.Join(out, ",")
}
