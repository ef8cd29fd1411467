package meta

import (
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/status"
)

// This file decodes the options of lists, watches and writes from a query.

// ListOptions are the query parameters of list, watch and deletecollection.
type ListOptions struct {
	Labels               labels.Selector
	Fields               fields.Selector
	Limit                int64 // 0 or less: no limit
	Continue             string
	ResourceVersion      string
	ResourceVersionMatch string
	Watch                bool
	AllowWatchBookmarks  bool
	SendInitialEvents    *bool
	TimeoutSeconds       *int64
}

// ParseListOptions decodes and validates the options of a list or watch. As upstream, a watch from
// the start without sendInitialEvents gets them.
func ParseListOptions(q url.Values) (*ListOptions, error) {
	var o metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&q, &o, nil); err != nil {
		return nil, status.BadRequest("%w", err)
	}
	in := internalversion.ListOptions{
		Watch:                o.Watch,
		AllowWatchBookmarks:  o.AllowWatchBookmarks,
		ResourceVersion:      o.ResourceVersion,
		ResourceVersionMatch: o.ResourceVersionMatch,
		TimeoutSeconds:       o.TimeoutSeconds,
		Limit:                o.Limit,
		Continue:             o.Continue,
		SendInitialEvents:    o.SendInitialEvents,
	}
	var err error
	if in.LabelSelector, err = labels.Parse(o.LabelSelector); err != nil {
		return nil, status.BadRequest("%w", err)
	}
	if in.FieldSelector, err = fields.ParseSelector(o.FieldSelector); err != nil {
		return nil, status.BadRequest("%w", err)
	}
	const watchList = true
	internalversion.SetListOptionsDefaults(&in, watchList)
	if err := invalid("ListOptions", listvalidation.ValidateListOptions(&in, watchList)); err != nil {
		return nil, err
	}
	return &ListOptions{
		Labels:               in.LabelSelector,
		Fields:               in.FieldSelector,
		Limit:                in.Limit,
		Continue:             in.Continue,
		ResourceVersion:      in.ResourceVersion,
		ResourceVersionMatch: string(in.ResourceVersionMatch),
		Watch:                in.Watch,
		AllowWatchBookmarks:  in.AllowWatchBookmarks,
		SendInitialEvents:    in.SendInitialEvents,
		TimeoutSeconds:       in.TimeoutSeconds,
	}, nil
}

// invalid returns a 422 for options of a kind, nil if errs is empty.
func invalid(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return status.Invalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// WriteOptions are the query parameters of create, update and patch.
type WriteOptions struct {
	DryRun          bool
	FieldManager    string
	FieldValidation string // Ignore, Warn or Strict; "" means Warn
	Force           *bool  // of apply patches
	Patch           bool   // the write is a patch

	Explain    string // ExplainText or ExplainJSON: explain why rules refuse the object; "" does not
	ExplainOld bool   // the caller may read the stored object, so that explanations may show it
}

// The forms of explanations: lines of text, or JSON.
const (
	ExplainText = "true"
	ExplainJSON = "json"
)

// ExplainParameter is the query parameter that asks for explanations. Kubernetes ignores it.
const ExplainParameter = "explain"

// parseExplain sets Explain by the query.
func (o *WriteOptions) parseExplain(q url.Values) (*WriteOptions, error) {
	switch form := q.Get(ExplainParameter); form {
	case "", "false":
	case ExplainText, ExplainJSON:
		o.Explain = form
	default:
		return nil, status.BadRequest("explain: got %q, want true, json or false", form)
	}
	return o, nil
}

// writeOptions returns the options; an empty dryRun means that the write is stored.
func writeOptions(dryRun []string, manager, fieldValidation string, force *bool) *WriteOptions {
	return &WriteOptions{DryRun: len(dryRun) > 0, FieldManager: manager, FieldValidation: fieldValidation, Force: force}
}

// ParseCreateOptions decodes and validates the options of a create.
func ParseCreateOptions(q url.Values) (*WriteOptions, error) {
	var o metav1.CreateOptions
	if err := metav1.Convert_url_Values_To_v1_CreateOptions(&q, &o, nil); err != nil {
		return nil, status.BadRequest("%w", err)
	}
	if err := invalid("CreateOptions", validation.ValidateCreateOptions(&o)); err != nil {
		return nil, err
	}
	return writeOptions(o.DryRun, o.FieldManager, o.FieldValidation, nil).parseExplain(q)
}

// ParseUpdateOptions decodes and validates the options of an update.
func ParseUpdateOptions(q url.Values) (*WriteOptions, error) {
	var o metav1.UpdateOptions
	if err := metav1.Convert_url_Values_To_v1_UpdateOptions(&q, &o, nil); err != nil {
		return nil, status.BadRequest("%w", err)
	}
	if err := invalid("UpdateOptions", validation.ValidateUpdateOptions(&o)); err != nil {
		return nil, err
	}
	return writeOptions(o.DryRun, o.FieldManager, o.FieldValidation, nil).parseExplain(q)
}

// ParsePatchOptions decodes and validates the options of a patch. apply is true for apply patches.
func ParsePatchOptions(q url.Values, apply bool) (*WriteOptions, error) {
	var o metav1.PatchOptions
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&q, &o, nil); err != nil {
		return nil, status.BadRequest("%w", err)
	}
	kind := types.MergePatchType // stands for all types but apply
	if apply {
		kind = types.ApplyYAMLPatchType
	}
	if err := invalid("PatchOptions", validation.ValidatePatchOptions(&o, kind)); err != nil {
		return nil, err
	}
	out := writeOptions(o.DryRun, o.FieldManager, o.FieldValidation, o.Force)
	out.Patch = true
	return out.parseExplain(q)
}
