package apply

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/status"
)

// This file gives errors the status that clients see.

func clientError(err error) *status.Error {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		return &status.Error{Status: s.Status(), Cause: err}
	}
	return &status.Error{Status: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: err.Error()}, Cause: err}
}
