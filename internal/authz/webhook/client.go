package webhook

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// This file sends reviews over HTTP.

// Client sends SubjectAccessReviews to the server that a kubeconfig names.
type Client struct {
	hook *kubehook.Client
	beta bool // send v1beta1
}

// ClientConfig describes the server of the webhook.
type ClientConfig struct {
	KubeConfigFile string // read once
	Version        string // of SubjectAccessReview: v1 or v1beta1
	Timeout        time.Duration
	Backoff        *wait.Backoff      // between tries; nil means kubehook.DefaultBackoff
	Certificates   *weakcert.Counters // nil: not counted
}

// NewClient reads the kubeconfig and returns a client for its server.
func NewClient(c ClientConfig) (*Client, error) {
	if c.Version != "v1" && c.Version != "v1beta1" {
		return nil, fmt.Errorf("unsupported webhook authorizer version %q, supported versions are %q, %q", c.Version, "v1", "v1beta1")
	}
	config, err := kubehook.Config(c.KubeConfigFile)
	if err != nil {
		return nil, err
	}
	config.Timeout = c.Timeout
	gv := schema.GroupVersion{Group: authorizationv1.GroupName, Version: c.Version}
	codec, err := kubehook.Codec(gv, authorizationv1.AddToScheme, authorizationv1beta1.AddToScheme)
	if err != nil {
		return nil, err
	}
	backoff := kubehook.DefaultBackoff
	if c.Backoff != nil {
		backoff = *c.Backoff
	}
	hook, err := kubehook.New(config, backoff, codec, c.Certificates)
	if err != nil {
		return nil, err
	}
	return &Client{hook: hook, beta: c.Version == "v1beta1"}, nil
}

// Ask sends the review and returns its status. Unless the call allows one attempt only, it retries
// after temporary errors.
func (c *Client) Ask(ctx context.Context, review *authorizationv1.SubjectAccessReview, call kubehook.Call) (
	authorizationv1.SubjectAccessReviewStatus, error) {
	if c.beta {
		var out authorizationv1beta1.SubjectAccessReview
		err := c.hook.Post(ctx, beta(review), &out, call)
		return authorizationv1.SubjectAccessReviewStatus(out.Status), err
	}
	var out authorizationv1.SubjectAccessReview
	err := c.hook.Post(ctx, review, &out, call)
	return out.Status, err
}

// beta converts a review to v1beta1.
func beta(in *authorizationv1.SubjectAccessReview) *authorizationv1beta1.SubjectAccessReview {
	s := &in.Spec
	out := &authorizationv1beta1.SubjectAccessReview{Spec: authorizationv1beta1.SubjectAccessReviewSpec{
		ResourceAttributes:    (*authorizationv1beta1.ResourceAttributes)(s.ResourceAttributes),
		NonResourceAttributes: (*authorizationv1beta1.NonResourceAttributes)(s.NonResourceAttributes),
		User:                  s.User, Groups: s.Groups, UID: s.UID,
	}}
	if s.Extra != nil {
		out.Spec.Extra = make(map[string]authorizationv1beta1.ExtraValue, len(s.Extra))
		for k, v := range s.Extra {
			out.Spec.Extra[k] = authorizationv1beta1.ExtraValue(v)
		}
	}
	return out
}
