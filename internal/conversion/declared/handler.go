package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file serves conversions to a cluster, as its conversion webhook.

// MaxReview is the greatest length of a ConversionReview, in bytes.
const MaxReview = 64 << 20

// maxReviews is the number of reviews that are in memory at the same time. Others wait.
const maxReviews = 8

// reviewVersions are the supported versions of ConversionReview, which have the same fields.
var reviewVersions = []string{"apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"}

// handler answers ConversionReviews.
type handler struct {
	converters map[string]*Converter // by group and kind
	rooms      chan struct{}
}

// NewHandler returns a conversion webhook for the kinds of converters: it answers a ConversionReview
// of apiextensions.k8s.io/v1 or v1beta1. Set a reading timeout on its http.Server.
func NewHandler(converters ...*Converter) http.Handler {
	h := &handler{converters: map[string]*Converter{}, rooms: make(chan struct{}, maxReviews)}
	for _, c := range converters {
		h.converters[c.group+" "+c.kind] = c
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want a POST of a ConversionReview", http.StatusMethodNotAllowed)
		return
	}
	select {
	case h.rooms <- struct{}{}:
		defer func() { <-h.rooms }()
	case <-r.Context().Done():
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxReview))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		http.Error(w, fmt.Sprintf("the review has more than %d bytes", MaxReview), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		return // the client is gone
	}
	var review apiextv1.ConversionReview
	if err := json.Unmarshal(text, &review); err != nil {
		http.Error(w, "reading the ConversionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	if review.Kind != "ConversionReview" || !slices.Contains(reviewVersions, review.APIVersion) || review.Request == nil {
		http.Error(w, fmt.Sprintf("got %s of %s, want a ConversionReview of %s with a request", review.Kind, review.APIVersion, strings.Join(reviewVersions, " or ")), http.StatusBadRequest)
		return
	}
	review.Response = h.answer(r, review.Request)
	review.Request = nil
	out, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The client is gone if this fails.
	_, _ = w.Write(out)
}

// answer converts the objects of a review: all of them or none.
func (h *handler) answer(r *http.Request, in *apiextv1.ConversionRequest) *apiextv1.ConversionResponse {
	out := &apiextv1.ConversionResponse{UID: in.UID, ConvertedObjects: []runtime.RawExtension{}}
	fail := func(err error) *apiextv1.ConversionResponse {
		out.ConvertedObjects = []runtime.RawExtension{}
		out.Result = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Message: err.Error()}
		return out
	}
	group, _, _ := strings.Cut(in.DesiredAPIVersion, "/")
	for i, object := range in.Objects {
		_, kind := heading(object.Raw)
		c := h.converters[group+" "+kind]
		if c == nil {
			return fail(fmt.Errorf("object %d: there is no conversion for kind %q of group %q", i, kind, group))
		}
		converted, err := c.Convert(r.Context(), in.DesiredAPIVersion, [][]byte{object.Raw})
		if err != nil {
			return fail(fmt.Errorf("object %d: %w", i, err))
		}
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Raw: converted[0]})
	}
	out.Result = metav1.Status{Status: metav1.StatusSuccess}
	return out
}
