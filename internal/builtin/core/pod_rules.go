package core

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks parts of pods that are seldom used: ephemeral containers, restart rules, label
// keys in selectors, AppArmor profiles, and fields that an operating system does not have.

// maxAppArmor is the largest length of the path of a profile.
const maxAppArmor = 4095

// checkAppArmor checks an AppArmor profile.
func checkAppArmor(path *field.Path, p *corev1.AppArmorProfile) field.ErrorList {
	if p == nil {
		return nil
	}
	const localhost, standard, none = corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined
	at := path.Child("localhostProfile")
	switch local := p.LocalhostProfile; {
	case p.Type == "":
		return field.ErrorList{field.Required(path.Child("type"), "type is required when appArmorProfile is set")}
	case p.Type != localhost && local != nil && (p.Type == standard || p.Type == none):
		return field.ErrorList{field.Invalid(at, local, "can only be set when AppArmor type is Localhost")}
	case p.Type != localhost:
		return describe.Among(path.Child("type"), p.Type, localhost, standard, none)
	case local == nil || *local == "":
		return field.ErrorList{field.Required(at, "must be set when AppArmor type is Localhost")}
	case strings.TrimSpace(*local) != *local:
		return field.ErrorList{field.Invalid(at, *local, "must not be padded with whitespace")}
	case len(*local) > maxAppArmor:
		return field.ErrorList{field.TooLong(at, "" /*unused*/, maxAppArmor)}
	}
	return nil
}

// ephemeralMay are the fields that an ephemeral container may have.
var ephemeralMay = map[string]bool{
	"Name": true, "Image": true, "Command": true, "Args": true, "WorkingDir": true, "EnvFrom": true, "Env": true, "VolumeMounts": true, "VolumeDevices": true,
	"TerminationMessagePath": true, "TerminationMessagePolicy": true, "ImagePullPolicy": true, "SecurityContext": true, "Stdin": true, "StdinOnce": true, "TTY": true,
}

// checkEphemeral checks the rules that are for ephemeral containers only.
func (c *podCheck) checkEphemeral(x *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	const not = "cannot be set for an Ephemeral Container"
	errs := checkImage(path.Child("image"), x.Image)
	if x.TargetContainerName != "" && !c.targets().Has(x.TargetContainerName) {
		errs = append(errs, field.NotFound(path.Child("targetContainerName"), x.TargetContainerName))
	}
	v := reflect.ValueOf(x.EphemeralContainerCommon)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !ephemeralMay[name] && !v.Field(i).IsZero() {
			errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), not))
		}
	}
	for i, m := range texts.Each(&errs, x.VolumeMounts) {
		at := path.Child("volumeMounts").Index(i)
		if m.SubPath != "" {
			errs = append(errs, field.Forbidden(at.Child("subPath"), not))
		}
		if m.SubPathExpr != "" {
			errs = append(errs, field.Forbidden(at.Child("subPathExpr"), not))
		}
	}
	return errs
}

// checkEphemeralUpdate refuses to change existing ephemeral containers. Upstream's message ends
// with a difference of Go values, which this one leaves out.
func checkEphemeralUpdate(now, was *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	named := describe.ByKey(now.EphemeralContainers, func(c *corev1.EphemeralContainer) string { return c.Name })
	for _, old := range texts.Each(&errs, was.EphemeralContainers) {
		i, ok := named[old.Name]
		if !ok {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", old.Name)))
		} else if !describe.SameJSON(old, now.EphemeralContainers[i]) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed", old.Name)))
		}
	}
	return errs
}

// Bounds of restart rules.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// checkRestarts checks the restart policy and the restart rules of a container.
func checkRestarts(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("restartPolicyRules")
	if x.RestartPolicy != nil {
		errs = describe.Among(path.Child("restartPolicy"), *x.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	} else if len(x.RestartPolicyRules) > 0 {
		errs = append(errs, field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	if n := len(x.RestartPolicyRules); n > maxRestartRules {
		errs = append(errs, field.TooMany(at, n, maxRestartRules))
	}
	for i, r := range texts.Each(&errs, x.RestartPolicyRules) {
		if may := []corev1.ContainerRestartRuleAction{corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers}; !slices.Contains(may, r.Action) {
			errs = append(errs, field.NotSupported(at.Index(i).Child("action"), r.Action, may))
		}
		codes := at.Index(i).Child("exitCodes")
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(codes, "must be specified"))
			continue
		}
		if may := []corev1.ContainerRestartRuleOnExitCodesOperator{corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn}; !slices.Contains(may, r.ExitCodes.Operator) {
			errs = append(errs, field.NotSupported(codes.Child("operator"), r.ExitCodes.Operator, may))
		}
		if n := len(r.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(codes.Child("values"), n, maxExitCodes))
		}
	}
	return errs
}

// checkResizing checks the policies for a change of a container's resources.
func (c *podCheck) checkResizing(all []corev1.ContainerResizePolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	have := map[corev1.ResourceName]bool{}
	for i, p := range texts.Each(&errs, all) {
		if have[p.ResourceName] {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		have[p.ResourceName] = true
		errs = append(errs, describe.NeedText(path, string(p.ResourceName))...)
		errs = append(errs, describe.Among(path, p.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, describe.NeedText(path, string(p.RestartPolicy))...)
		errs = append(errs, describe.Among(path, p.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)...)
		if c.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// checkLabelKeys checks the label keys whose values a new pod adds to a selector.
func checkLabelKeys(path *field.Path, match, mismatch []string, s *metav1.LabelSelector) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name string
		keys []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		at := path.Child(list.name)
		if s == nil && len(list.keys) > 0 {
			errs = append(errs, field.Forbidden(at, "must not be specified when labelSelector is not set"))
			continue
		}
		for i, key := range texts.Each(&errs, list.keys) {
			errs = append(errs, metav1validation.ValidateLabelName(key, at.Index(i))...)
		}
	}
	if s != nil {
		have, last := map[string]bool{}, map[string]int{}
		for key := range s.MatchLabels {
			have[key] = true
		}
		for i, key := range match {
			last[key] = i
		}
		for _, e := range s.MatchExpressions {
			// Upstream leaves out the name of the list in this path.
			if i, ok := last[e.Key]; ok && have[e.Key] {
				errs = append(errs, field.Invalid(path.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector").WithOrigin("duplicatedLabelKeys"))
			}
			have[e.Key] = true
		}
	}
	excluded := sets.New(mismatch...)
	for i, key := range texts.Each(&errs, match) {
		if excluded.Has(key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys").WithOrigin("duplicatedMismatchLabelKeys"))
		}
	}
	return errs
}

// checkSpreads checks that no two constraints have the same topology and policy, and the policies
// for nodes.
func checkSpreads(all []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	type pair struct {
		key string
		way corev1.UnsatisfiableConstraintAction
	}
	last := map[pair]int{}
	for i, s := range texts.Each(&errs, all) {
		last[pair{s.TopologyKey, s.WhenUnsatisfiable}] = i
	}
	for i, s := range texts.Each(&errs, all) {
		at := path.Index(i)
		if last[pair{s.TopologyKey, s.WhenUnsatisfiable}] > i {
			errs = append(errs, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", s.TopologyKey, s.WhenUnsatisfiable)))
		}
		for _, of := range []struct {
			name   string
			policy *corev1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", s.NodeAffinityPolicy}, {"nodeTaintsPolicy", s.NodeTaintsPolicy}} {
			if of.policy != nil && !slices.Contains(policies, *of.policy) {
				errs = append(errs, field.NotSupported(at.Child(of.name), of.policy, policies))
			}
		}
		errs = append(errs, checkLabelKeys(at, s.MatchLabelKeys, nil, s.LabelSelector)...)
	}
	return errs
}

// checkNodeField checks a term about a field of nodes. The only such field is metadata.name.
func checkNodeField(r *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	} else if len(r.Values) != 1 {
		errs = append(errs, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range texts.Each(&errs, r.Values) {
		errs = append(errs, describe.Invalid(path.Child("values").Index(i), value, validation.IsDNS1123Subdomain(value))...)
	}
	return errs
}

// setField is the name of a field, and whether the object sets it.
type setField struct {
	name  string
	isSet bool
}

// checkSystem refuses fields that the pod's operating system does not have, in upstream's order.
func (c *podCheck) checkSystem() field.ErrorList {
	if c.OS == nil {
		return nil
	}
	var errs field.ErrorList
	not := func(at *field.Path, detail string, fields ...setField) {
		for _, f := range fields {
			if f.isSet {
				errs = append(errs, field.Forbidden(at.Child(f.name), detail))
			}
		}
	}
	const linux, windows = "windows options cannot be set for a linux pod", "cannot be set for a windows pod"
	own := c.SecurityContext
	if own == nil {
		own = new(corev1.PodSecurityContext)
	}
	each := func(see func(s *corev1.SecurityContext, at *field.Path)) {
		for path, x := range texts.Until(&errs, c.each()) {
			if x.SecurityContext != nil {
				see(x.SecurityContext, path.Child("securityContext"))
			}
		}
	}
	at := c.path.Child("securityContext")
	switch c.OS.Name {
	case corev1.Linux:
		not(at, linux, setField{"windowsOptions", own.WindowsOptions != nil})
		each(func(s *corev1.SecurityContext, at *field.Path) {
			not(at, linux, setField{"windowsOptions", s.WindowsOptions != nil})
		})
	case corev1.Windows:
		not(at, windows, []setField{
			{"appArmorProfile", own.AppArmorProfile != nil}, {"seLinuxOptions", own.SELinuxOptions != nil}, {"seccompProfile", own.SeccompProfile != nil},
			{"fsGroup", own.FSGroup != nil}, {"fsGroupChangePolicy", own.FSGroupChangePolicy != nil}, {"sysctls", len(own.Sysctls) > 0},
			{"runAsUser", own.RunAsUser != nil}, {"runAsGroup", own.RunAsGroup != nil}, {"supplementalGroups", own.SupplementalGroups != nil},
			{"supplementalGroupsPolicy", own.SupplementalGroupsPolicy != nil}, {"seLinuxChangePolicy", own.SELinuxChangePolicy != nil},
		}...)
		not(c.path, windows, []setField{
			{"hostUsers", c.HostUsers != nil}, {"hostPID", c.HostPID}, {"hostIPC", c.HostIPC}, {"shareProcessNamespace", c.ShareProcessNamespace != nil},
		}...)
		each(func(s *corev1.SecurityContext, at *field.Path) {
			not(at, windows, []setField{
				{"appArmorProfile", s.AppArmorProfile != nil}, {"seLinuxOptions", s.SELinuxOptions != nil}, {"seccompProfile", s.SeccompProfile != nil},
				{"capabilities", s.Capabilities != nil}, {"readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil}, {"privileged", s.Privileged != nil},
				{"allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil}, {"procMount", s.ProcMount != nil},
				{"runAsUser", s.RunAsUser != nil}, {"runAsGroup", s.RunAsGroup != nil},
			}...)
		})
	}
	return errs
}

// checkTrustBundle checks the trust bundles in a volume: one by name, or those of a signer.
func checkTrustBundle(b *corev1.ClusterTrustBundleProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case b.Name != nil && b.SignerName != nil:
		errs = append(errs, field.Invalid(path, describe.InGoNames(b), "only one of name and signerName may be used"))
	case b.Name != nil:
		if *b.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "must be a valid object name"))
		}
		for _, msg := range describe.Subdomain((*b.Name)[strings.LastIndexByte(*b.Name, ':')+1:], false) {
			errs = append(errs, field.Invalid(path.Child("name"), *b.Name, "not a valid clustertrustbundlename: "+msg))
		}
		if b.LabelSelector != nil {
			errs = append(errs, field.Invalid(path.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		if *b.SignerName == "" {
			errs = append(errs, field.Required(path.Child("signerName"), "must be a valid signer name"))
		}
		errs = append(errs, describe.CheckSigner(*b.SignerName, path.Child("signerName"))...)
		errs = append(errs, describe.CheckTerms(b.LabelSelector, path.Child("labelSelector"))...)
	default:
		errs = append(errs, field.Required(path, "either name or signerName must be specified"))
	}
	return append(errs, checkFile(path.Child("path"), b.Path)...)
}

// Bounds of the lifetime of a pod's certificate, in seconds.
const (
	minCertificate         = 3600
	maxCertificate         = 91 * 24 * 3600
	maxOfKubernetesSigners = 24 * 3600
)

// checkPodCertificate checks a certificate and its key in a volume.
func checkPodCertificate(p *corev1.PodCertificateProjection, path *field.Path) field.ErrorList {
	errs := describe.CheckSigner(p.SignerName, path.Child("signerName"))
	for _, key := range texts.Each(&errs, slices.Sorted(maps.Keys(p.UserAnnotations))) {
		errs = append(errs, validation.IsDomainPrefixedKey(path.Child("userAnnotations"), strings.ToLower(key))...)
	}
	if types := []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}; !slices.Contains(types, p.KeyType) {
		errs = append(errs, field.NotSupported(path.Child("keyType"), p.KeyType, types))
	}
	most := int32(maxCertificate)
	if domain, _, _ := strings.Cut(p.SignerName, "/"); domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		most = maxOfKubernetesSigners
	}
	switch n, at := p.MaxExpirationSeconds, path.Child("maxExpirationSeconds"); {
	case n == nil:
	case *n < minCertificate:
		errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", minCertificate)))
	case *n > most:
		errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most)))
	}
	files := 0
	for _, f := range []struct{ name, path string }{{"credentialBundlePath", p.CredentialBundlePath}, {"keyPath", p.KeyPath}, {"certificateChainPath", p.CertificateChainPath}} {
		if f.path != "" {
			files++
			errs = append(errs, checkFile(path.Child(f.name), f.path)...)
		}
	}
	if files == 0 {
		errs = append(errs, field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	return errs
}
