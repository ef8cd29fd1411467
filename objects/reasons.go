package objects

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// This file adds explanations to refusals.

// addReasons adds a cause to a refusal for each reason: with the path of the value as its field, and
// the explanation as its message.
func addReasons(err *status.Error, form string, reasons []schema.Reason) {
	for i := range reasons {
		part := &reasons[i].Explanation
		text := strings.Join(part.Lines(), "\n")
		if form == meta.ExplainJSON {
			body, failed := json.Marshal(part)
			if failed != nil {
				continue
			}
			text = string(body)
		}
		err.AddCause(metav1.StatusCause{Type: status.CauseExplanation, Field: reasons[i].Field, Message: text})
	}
}
