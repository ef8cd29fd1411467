package pods

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/noderestriction"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
)

// This file gives pods their service account.

const (
	defaultAccount = "default"
	// tokenVolume is the prefix of the volume with the token.
	tokenVolume = "kube-api-access-"
	// tokenPath is where containers find the token.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is how long a mounted token is valid. It differs from an hour, by which the server
	// recognizes mounted tokens.
	tokenSeconds = 60*60 + 7
	// enforceSecrets is the annotation of service accounts whose pods use only the secrets that the
	// account lists.
	enforceSecrets = "kubernetes.io/enforce-mountable-secrets"
	// accountTries is how often the default account is looked for, since a controller creates it
	// after its namespace.
	accountTries = 10
)

// ServiceAccount is the plugin of that name. mutate gives new pods their account, its image pull
// secrets and its token. validate requires the account to exist.
func ServiceAccount(o *Objects) (mutate, validate admission.Func) {
	mutate = onCreate(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		if isMirror(pod) {
			return checkMirror(r, pod)
		}
		account, err := o.useAccount(ctx, r, pod)
		if err != nil {
			return err
		}
		if mountsToken(account, pod) {
			if err := mountToken(r, pod); err != nil {
				return err
			}
		}
		if len(pod.Spec.ImagePullSecrets) == 0 && len(account.ImagePullSecrets) > 0 {
			pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
			if err := r.Edit(pod.Spec.ImagePullSecrets, "spec", "imagePullSecrets"); err != nil {
				return err
			}
		}
		return o.checkAccount(ctx, r, pod)
	})
	validate = func(ctx context.Context, r *admission.Request) error {
		ephemeral := r.Operation == admission.Update && r.Subresource == "ephemeralcontainers"
		if !ephemeral && (r.Operation != admission.Create || r.Subresource != "") {
			return nil
		}
		pod, err := admission.NewObject[corev1.Pod](r)
		switch {
		case err != nil:
			return err
		case ephemeral:
			return o.checkEphemeral(ctx, r, pod)
		case isMirror(pod):
			return checkMirror(r, pod)
		}
		return o.checkAccount(ctx, r, pod)
	}
	return mutate, validate
}

// isMirror reports whether a pod stands for a static pod of a node.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// checkMirror refuses mirror pods that refer to what a node must not get for them.
func checkMirror(r *admission.Request, pod *corev1.Pod) error {
	switch {
	case pod.Spec.ServiceAccountName != "":
		return r.Forbidden(errors.New("a mirror pod may not reference service accounts"))
	case noderestriction.NamesSecrets(&pod.Spec):
		return r.Forbidden(errors.New("a mirror pod may not reference secrets"))
	}
	for i := range pod.Spec.Volumes {
		if p := pod.Spec.Volumes[i].Projected; p != nil {
			if slices.ContainsFunc(p.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
				return r.Forbidden(errors.New("a mirror pod may not use ServiceAccountToken volume projections"))
			}
		}
	}
	return nil
}

// useAccount names the default account if a pod names none. It returns the account.
func (o *Objects) useAccount(ctx context.Context, r *admission.Request, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	s := &pod.Spec
	if s.ServiceAccountName == "" {
		s.ServiceAccountName, s.DeprecatedServiceAccount = defaultAccount, defaultAccount
		if err := r.Edit(defaultAccount, "spec", "serviceAccountName"); err != nil {
			return nil, err
		}
		if err := r.Edit(defaultAccount, "spec", "serviceAccount"); err != nil {
			return nil, err
		}
	}
	return o.account(ctx, r, s.ServiceAccountName)
}

// account returns a service account, or refuses the request. It waits for a default account that does
// not exist yet.
func (o *Objects) account(ctx context.Context, r *admission.Request, name string) (*corev1.ServiceAccount, error) {
	refuse := func(err error) error {
		return r.Forbidden(fmt.Errorf("error looking up service account %s/%s: %w", r.Namespace, name, err))
	}
	tries := 1
	if name == defaultAccount {
		tries = accountTries
	}
	pause := time.Duration(100+rand.Int64N(100)) * time.Millisecond
	for try := 1; ; try++ {
		account, err := o.ServiceAccounts.Get(ctx, r.Namespace, name)
		if account != nil {
			return account, nil
		}
		if err != nil {
			return nil, refuse(err)
		}
		if try == tries {
			return nil, refuse(status.NotFound(schema.GroupResource{Resource: "serviceaccount"}, name))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, refuse(ctx.Err())
		}
	}
}

// checkAccount refuses a pod without an account that exists, or with secrets that the account does
// not list although it must.
func (o *Objects) checkAccount(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
	account, err := o.required(ctx, r, pod)
	if err != nil || !enforcesSecrets(account) {
		return err
	}
	if err := listedSecrets(account, pod); err != nil {
		return r.Forbidden(err)
	}
	return nil
}

// required returns the account that a pod has to have.
func (o *Objects) required(ctx context.Context, r *admission.Request, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	if pod.Spec.ServiceAccountName == "" {
		return nil, r.Forbidden(fmt.Errorf("no service account specified for pod %s/%s", r.Namespace, pod.Name))
	}
	return o.account(ctx, r, pod.Spec.ServiceAccountName)
}

// checkEphemeral is checkAccount for new ephemeral containers.
func (o *Objects) checkEphemeral(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
	account, err := o.required(ctx, r, pod)
	if err != nil || !enforcesSecrets(account) {
		return err
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if err := listedInEnvironment(account, "ephemeral container", c.Name, c.Env, c.EnvFrom); err != nil {
			return r.Forbidden(err)
		}
	}
	return nil
}

// enforcesSecrets reports whether pods of the account use only secrets that it lists.
func enforcesSecrets(account *corev1.ServiceAccount) bool {
	on, err := strconv.ParseBool(account.Annotations[enforceSecrets])
	return err == nil && on
}

// lists reports whether an account lists a secret.
func lists(account *corev1.ServiceAccount, secret string) bool {
	return slices.ContainsFunc(account.Secrets, func(s corev1.ObjectReference) bool { return s.Name == secret })
}

// listedSecrets returns an error if a pod uses a secret that its account does not list.
func listedSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		if s := pod.Spec.Volumes[i].Secret; s != nil && !lists(account, s.SecretName) {
			return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", s.SecretName, account.Name)
		}
	}
	for _, list := range []struct {
		what       string
		containers []corev1.Container
	}{{"init container", pod.Spec.InitContainers}, {"container", pod.Spec.Containers}} {
		for i := range list.containers {
			c := &list.containers[i]
			if err := listedInEnvironment(account, list.what, c.Name, c.Env, c.EnvFrom); err != nil {
				return err
			}
		}
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, s) {
			return fmt.Errorf(`imagePullSecrets[%d].name="%s" is not allowed because service account %s does not reference that imagePullSecret`, i, s.Name, account.Name)
		}
	}
	return nil
}

// listedInEnvironment is listedSecrets for the environment of a container.
func listedInEnvironment(account *corev1.ServiceAccount, what, name string, env []corev1.EnvVar, from []corev1.EnvFromSource) error {
	for i := range env {
		if v := env[i].ValueFrom; v != nil && v.SecretKeyRef != nil && !lists(account, v.SecretKeyRef.Name) {
			return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret",
				what, name, env[i].Name, v.SecretKeyRef.Name, account.Name)
		}
	}
	for i := range from {
		if s := from[i].SecretRef; s != nil && !lists(account, s.Name) {
			return fmt.Errorf("%s %s with envFrom referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret",
				what, name, s.Name, account.Name)
		}
	}
	return nil
}

// mountsToken reports whether containers get the token: the pod decides before its account.
func mountsToken(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if own := pod.Spec.AutomountServiceAccountToken; own != nil {
		return *own
	}
	return account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken
}

// mountToken mounts the token in every container that has nothing at its path.
func mountToken(r *admission.Request, pod *corev1.Pod) error {
	name := ""
	for i := range pod.Spec.Volumes {
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, tokenVolume) {
			name = pod.Spec.Volumes[i].Name
			break
		}
	}
	exists := name != ""
	if !exists {
		name = meta.GenerateName(tokenVolume)
	}
	needed := false
	for _, list := range []struct {
		member     string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		if !mountIn(list.containers, name) {
			continue
		}
		needed = true
		if err := r.Edit(list.containers, "spec", list.member); err != nil {
			return err
		}
	}
	if exists || !needed {
		return nil
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	return r.Edit(pod.Spec.Volumes, "spec", "volumes")
}

// mountIn mounts a volume in the containers that lack a mount at the token's path. It reports whether
// there are any.
func mountIn(containers []corev1.Container, volume string) bool {
	needed := false
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath }) {
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: tokenPath})
		needed = true
	}
	return needed
}

// tokenSource returns a volume with a token, the authorities of the server, and the namespace.
func tokenSource() *corev1.ProjectedVolumeSource {
	mode, seconds := corev1.ProjectedVolumeSourceDefaultMode, int64(tokenSeconds)
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		},
	}
}
