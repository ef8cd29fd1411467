package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/authn/serviceaccount"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file issues tokens of service accounts, and publishes how they are
// verified.

// Tokens is what tokens of service accounts are issued with. The zero value
// issues none.
type Tokens struct {
	Issuer *serviceaccount.Issuer
	// MaxExpiration shortens what is asked for; 0: it does not.
	MaxExpiration time.Duration
}

// Limits of a token's life, in seconds.
const (
	minTokenLife = 600
	maxTokenLife = 1 << 32
)

var tokenRequestKind = kschema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}

// tokenRequest issues a token of a service account.
func tokenRequest(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	// Without an issuer, the subresource does not exist.
	if q.h.Tokens.Issuer == nil {
		return nil, status.NotFound(q.kind.GroupResource(), q.name)
	}
	if err := q.recordSender(d, o); err != nil {
		return nil, err
	}
	a := q.subresourceRequest(d, o)
	if err := q.h.Objects.Chain().Mutate(q.ctx, a); err != nil {
		return nil, err
	}
	return reviewed(q, d, nil, func(r *authenticationv1.TokenRequest) error {
		if r.Name != "" && r.Name != q.name {
			return status.Invalid(tokenRequestKind, q.name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "name"), r.Name, "must match the service account name if specified")})
		}
		account, err := q.h.Objects.TokenReference(q.ctx, "serviceaccounts", q.namespace, q.name)
		if err != nil {
			return err
		}
		// The client may insist on the account that it knows, not one of the same name.
		if r.UID != "" && string(r.UID) != account.UID {
			return status.Conflict(kschema.GroupResource{Group: tokenRequestKind.Group, Resource: tokenRequestKind.Kind}, q.name,
				fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", r.UID, account.UID))
		}
		now := time.Now()
		r.Name, r.Namespace, r.UID = q.name, q.namespace, types.UID(account.UID)
		r.CreationTimestamp = metav1.NewTime(now)
		// A token without audiences is for this server.
		if len(r.Spec.Audiences) == 0 {
			r.Spec.Audiences = slices.Clone(q.h.Audiences)
		}
		if err := replace(d, r); err != nil {
			return err
		}
		if err := q.h.Objects.Chain().Validate(q.ctx, a); err != nil {
			return err
		}
		return q.issue(r, account, now)
	})
}

// issue fills in the answer to a TokenRequest.
func (q *request) issue(r *authenticationv1.TokenRequest, account *objects.TokenReference, now time.Time) error {
	path, life := field.NewPath("spec", "expirationSeconds"), r.Spec.ExpirationSeconds
	var errs field.ErrorList
	if *life < minTokenLife {
		errs = append(errs, field.Invalid(path, *life, "may not specify a duration less than 10 minutes"))
	}
	if *life > maxTokenLife {
		errs = append(errs, field.Invalid(path, *life, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return status.Invalid(tokenRequestKind, "", errs)
	}
	// A token is valid as long as the account, and the object to which it is bound, exist with these UIDs.
	claims := serviceaccount.Claims{Namespace: q.namespace, ServiceAccount: serviceaccount.Reference{Name: q.name, UID: account.UID}}
	if err := q.bind(&claims, r.Spec.BoundObjectRef); err != nil {
		return err
	}
	// The limit of the operator shortens the life and does not refuse the request: clients renew tokens.
	if limit := int64(q.h.Tokens.MaxExpiration / time.Second); limit > 0 && *life > limit {
		q.warn(fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *life, limit))
		*life = limit
	}
	expires := now.Add(time.Duration(*life) * time.Second)
	token, id, err := q.h.Tokens.Issuer.Sign(q.ctx, claims, r.Spec.Audiences, now, expires)
	if err != nil {
		return status.Internal(fmt.Errorf("failed to generate token: %w", err))
	}
	r.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(expires)}
	q.audit.Annotate("authentication.kubernetes.io/issued-credential-id", serviceaccount.CredentialID(id))
	return nil
}

// bind binds a token to the object that is asked for.
func (q *request) bind(c *serviceaccount.Claims, ref *authenticationv1.BoundObjectReference) error {
	if ref == nil {
		return nil
	}
	gvk := kschema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	var object *objects.TokenReference
	var err error
	switch {
	// The object ends the token: deleting the Secret, Node or Pod revokes it.
	case gvk.Group == "" && gvk.Kind == "Secret":
		if object, err = q.h.Objects.TokenReference(q.ctx, "secrets", q.namespace, ref.Name); err == nil {
			c.Secret = &serviceaccount.Reference{Name: ref.Name, UID: object.UID}
		}
	case gvk.Group == "" && gvk.Kind == "Node":
		if object, err = q.h.Objects.TokenReference(q.ctx, "nodes", "", ref.Name); err == nil {
			c.Node = &serviceaccount.Reference{Name: ref.Name, UID: object.UID}
		}
	case gvk.Group == "" && gvk.Kind == "Pod":
		if object, err = q.h.Objects.TokenReference(q.ctx, "pods", q.namespace, ref.Name); err == nil {
			err = q.bindPod(c, ref.Name, object)
		}
	// A webhook configuration is one in this version alone, unlike the objects above.
	case gvk.GroupVersion() == admissionregistrationv1.SchemeGroupVersion && (gvk.Kind == "ValidatingWebhookConfiguration" || gvk.Kind == "MutatingWebhookConfiguration"):
		return status.BadRequest("cannot bind token to object of type %s (feature gate APIServerWebhookAuthenticationToken is disabled)", gvk.String())
	default:
		return status.BadRequest("cannot bind token to object of type %s", gvk.String())
	}
	if err != nil {
		return err
	}
	if ref.UID != "" && string(ref.UID) != object.UID {
		return status.Conflict(kschema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return nil
}

// bindPod binds a token to a pod, and adds the pod's node to the claims.
func (q *request) bindPod(c *serviceaccount.Claims, name string, pod *objects.TokenReference) error {
	if pod.Account != q.name {
		return status.BadRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", q.name)
	}
	c.Pod = &serviceaccount.Reference{Name: name, UID: pod.UID}
	if pod.Node == "" {
		return nil
	}
	c.Node = &serviceaccount.Reference{Name: pod.Node}
	node, err := q.h.Objects.TokenReference(q.ctx, "nodes", "", pod.Node)
	if err != nil {
		if status.From(err).Reason == metav1.StatusReasonNotFound {
			return nil
		}
		return status.Internal(err)
	}
	c.Node.UID = node.UID
	return nil
}

// discoveryAge is how long verifiers of tokens may cache the answers, in seconds.
const discoveryAge = 3600

// issuerDocument serves one of the documents by which others verify tokens.
func (q *request) issuerDocument() bool {
	i := q.h.Tokens.Issuer
	if i == nil || q.r.Method != http.MethodGet && q.r.Method != http.MethodHead {
		return false
	}
	var body []byte
	media := encoding.JSON
	switch q.path {
	case serviceaccount.ConfigurationPath:
		body = i.Configuration()
	case serviceaccount.KeysPath:
		body, media = i.KeySet(), "application/jwk-set+json"
	}
	if body == nil {
		return false
	}
	h := q.w.Header()
	h.Set("Content-Type", media)
	age := discoveryAge
	if until, changes := i.Age(); changes {
		age = min(age, int(until/time.Second))
	}
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(age))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	q.header(http.StatusOK)
	if q.r.Method != http.MethodHead {
		q.w.Write(body)
	}
	return true
}
