package apply

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/status"
)

// This file reads our errors.

// statusOf is the status of an error that is not a plain failure: upstream's
// counterpart of those has no status yet.
func statusOf(err error) (metav1.Status, bool) {
	var e *status.Error
	if !errors.As(err, &e) || e.Code == 500 {
		return metav1.Status{}, false
	}
	return e.Status, true
}
