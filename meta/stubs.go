package meta

import (
	"iter"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
)

const nb = "BUG: not built yet"

// Object reads and writes an object's metadata in a doc.
type Object struct{ Doc *doc.Doc }

func (o Object) APIVersion() string                     { panic(nb) }
func (o Object) Kind() string                           { panic(nb) }
func (o Object) Meta() doc.Value                        { panic(nb) }
func (o Object) Name() string                           { panic(nb) }
func (o Object) Namespace() string                      { panic(nb) }
func (o Object) GenerateName() string                   { panic(nb) }
func (o Object) UID() string                            { panic(nb) }
func (o Object) ResourceVersion() string                { panic(nb) }
func (o Object) CreationTimestamp() string              { panic(nb) }
func (o Object) Generation() int64                      { panic(nb) }
func (o Object) DeletionTimestamp() string              { panic(nb) }
func (o Object) Finalizers() iter.Seq[string]           { panic(nb) }
func (o Object) Labels() labels.Labels                  { panic(nb) }
func (o Object) Annotation(key string) string           { panic(nb) }
func (o Object) SetAPIVersion(v string)                 { panic(nb) }
func (o Object) SetKind(v string)                       { panic(nb) }
func (o Object) SetName(v string)                       { panic(nb) }
func (o Object) SetNamespace(v string)                  { panic(nb) }
func (o Object) SetUID(v string)                        { panic(nb) }
func (o Object) SetCreationTimestamp(t time.Time)       { panic(nb) }
func (o Object) SetGeneration(v int64)                  { panic(nb) }
func (o Object) SetResourceVersion(v string)            { panic(nb) }
func (o Object) SetDeletionTimestamp(t time.Time)       { panic(nb) }
func (o Object) SetDeletionGracePeriodSeconds(v int64)  { panic(nb) }
func (o Object) SetFinalizers(v []string)               { panic(nb) }
func (o Object) ObjectMeta() (metav1.ObjectMeta, error) { panic(nb) }

func NewUID() string                  { panic(nb) }
func GenerateName(base string) string { panic(nb) }

// ListOptions are the query parameters of list, watch and deletecollection.
type ListOptions struct {
	Labels               labels.Selector
	Fields               fields.Selector
	Limit                int64
	Continue             string
	ResourceVersion      string
	ResourceVersionMatch string
	Watch                bool
	AllowWatchBookmarks  bool
	SendInitialEvents    *bool
	TimeoutSeconds       *int64
}

func ParseListOptions(q url.Values) (*ListOptions, error)            { panic(nb) }
func ParseContinue(token string) (rv int64, start string, err error) { panic(nb) }
func EncodeContinue(rv int64, start string) string                   { panic(nb) }

// WriteOptions are the query parameters of create, update and patch.
type WriteOptions struct {
	DryRun          bool
	FieldManager    string
	FieldValidation string
	Force           *bool
}

func ParseCreateOptions(q url.Values) (*WriteOptions, error) { panic(nb) }
func ParseUpdateOptions(q url.Values) (*WriteOptions, error) { panic(nb) }

// ParsePatchOptions: apply says that the body is an apply patch.
func ParsePatchOptions(q url.Values, apply bool) (*WriteOptions, error) { panic(nb) }

// DeleteOptions are the options of delete and deletecollection.
type DeleteOptions struct {
	DryRun             bool
	UID                *string // precondition
	ResourceVersion    *string // precondition
	OrphanDependents   *bool
	PropagationPolicy  string // "", Orphan, Background, Foreground
	GracePeriodSeconds *int64
}

func ParseDeleteOptions(body []byte, contentType string, q url.Values) (*DeleteOptions, error) {
	panic(nb)
}

// ValidateObjectMeta checks a new object's metadata.
func ValidateObjectMeta(o Object, namespaced bool) field.ErrorList { panic(nb) }

// ValidateObjectMetaUpdate checks the metadata of an update.
func ValidateObjectMetaUpdate(new, old Object) field.ErrorList { panic(nb) }

// Warnings are upstream's warnings about metadata: finalizer names, duplicate owners. old may be the zero Object.
func Warnings(new, old Object) []string { panic(nb) }

// FillCreate sets what the server sets on create. Warnings come back.
func FillCreate(o Object, now time.Time) []string { panic(nb) }

// FillUpdate keeps what the server keeps on update; changed says that something outside metadata differs (generation).
func FillUpdate(new, old Object, changedOutsideMetadata bool) []string { panic(nb) }
