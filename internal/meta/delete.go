package meta

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/yamljson"
)

// This file decodes the options of delete and deletecollection.

// DeleteOptions are the options of delete and deletecollection.
type DeleteOptions struct {
	DryRun             bool
	UID                *string // precondition
	ResourceVersion    *string // precondition
	OrphanDependents   *bool
	PropagationPolicy  string // "", Orphan, Background or Foreground
	GracePeriodSeconds *int64
	Unreadable         bool // delete an object that cannot be decoded (ignoreStoreReadErrorWithClusterBreakingPotential, KEP-3926)
}

// ParseDeleteOptions decodes and validates delete options from the body, JSON or YAML, or from the
// query if there is no body. It stops with ctx.
func ParseDeleteOptions(ctx context.Context, body []byte, contentType string, q url.Values) (*DeleteOptions, error) {
	var o metav1.DeleteOptions
	var err error
	if len(body) > 0 {
		err = decodeDeleteOptions(ctx, body, contentType, &o)
	} else {
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&q, &o, nil)
	}
	var limit *yamljson.LimitError
	switch {
	case errors.As(err, &limit):
		return nil, status.TooLarge(limit.Error())
	case err != nil && ctx.Err() != nil:
		return nil, status.Timeout("request did not complete within the allotted timeout", 0)
	case err != nil:
		return nil, status.BadRequest("%w", err)
	}
	if err := invalid("DeleteOptions", validation.ValidateDeleteOptions(&o)); err != nil {
		return nil, err
	}
	out := &DeleteOptions{
		DryRun: len(o.DryRun) > 0,
		//lint:ignore SA1019 clients still send it
		OrphanDependents:   o.OrphanDependents,
		GracePeriodSeconds: o.GracePeriodSeconds,
		Unreadable:         o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential,
	}
	if o.PropagationPolicy != nil {
		out.PropagationPolicy = string(*o.PropagationPolicy)
	}
	if p := o.Preconditions; p != nil {
		out.UID, out.ResourceVersion = (*string)(p.UID), p.ResourceVersion
	}
	return out, nil
}

// decodeDeleteOptions decodes a body with apimachinery's codec, for the same error texts. The kind
// DeleteOptions is accepted in any group.
func decodeDeleteOptions(ctx context.Context, body []byte, contentType string, o *metav1.DeleteOptions) error {
	if media, _, _ := strings.Cut(contentType, ";"); strings.TrimSpace(media) == runtime.ContentTypeYAML {
		j, _, err := yamljson.JSON(ctx, body, false)
		if err != nil {
			return err
		}
		body = j
	}
	want := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	into, _, err := scheme.Codecs.DecoderToVersion(info.Serializer, want.GroupVersion()).Decode(body, &want, o)
	switch {
	case err != nil:
		return err
	case into != runtime.Object(o):
		return status.BadRequest("decoded object cannot be converted to DeleteOptions")
	}
	return nil
}
