package core

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks pods and templates of pods: required fields, names and references.

// checkPod checks a pod; old is nil on create.
func checkPod(_ *kind.Version, d, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return checkPodStatus(describe.ReadAs[corev1.Pod](d.Root()), describe.ReadAs[corev1.Pod](old.Root()))
	}
	path := field.NewPath("spec")
	spec := describe.ReadAs[corev1.PodSpec](d.Root().Get("spec"))
	errs := checkPodSpec(spec, path, nil)
	errs = append(errs, checkOnlyPod(spec, path)...)
	if old == nil {
		if len(spec.EphemeralContainers) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
		}
		if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
			errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
		}
	}
	if old != nil && scope == schema.Whole {
		errs = append(errs, checkPodUpdate(d, old)...)
	}
	if old != nil && scope == schema.EphemeralContainers {
		errs = append(errs, checkEphemeralUpdate(spec, describe.ReadAs[corev1.PodSpec](old.Root().Get("spec")), path.Child("ephemeralContainers"))...)
	}
	if old != nil && scope == schema.Resize {
		errs = checkResize(describe.ReadAs[corev1.Pod](d.Root()), describe.ReadAs[corev1.Pod](old.Root()), errs)
	}
	return errs
}

// checkOnlyPod checks the fields that only pods must have, not templates of pods.
func checkOnlyPod(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	said := texts.Over(&errs)
	for i, v := range texts.EachOf(said, spec.Volumes) {
		if v.Projected == nil || spec.ServiceAccountName != "" {
			continue
		}
		for j, s := range texts.EachOf(said, v.Projected.Sources) {
			if s.ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(path.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	for i := range texts.Each(&errs, spec.Containers) {
		errs = append(errs, checkImage(path.Child("containers").Index(i).Child("image"), spec.Containers[i].Image)...)
	}
	for i := range texts.Each(&errs, spec.InitContainers) {
		errs = append(errs, checkImage(path.Child("initContainers").Index(i).Child("image"), spec.InitContainers[i].Image)...)
	}
	return append(errs, describe.AtLeast(path.Child("terminationGracePeriodSeconds"), spec.TerminationGracePeriodSeconds, 0)...)
}

// CheckTemplate checks a template of pods. claims has the volumes that each pod gets from templates
// of claims, by name.
func CheckTemplate(t *corev1.PodTemplateSpec, path *field.Path, claims []corev1.Volume) field.ErrorList {
	errs := texts.Labels(t.Labels, path.Child("labels"))
	errs = append(errs, texts.Annotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, checkPodSpec(&t.Spec, path.Child("spec"), claims)...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// podCheck has the pod to check and the names that its parts refer to.
type podCheck struct {
	*corev1.PodSpec
	path    *field.Path
	volumes map[string]bool         // the valid ones, by name
	claimed map[string]bool         // those of them that are claims
	names   map[string]bool         // of containers
	empty   map[string]bool         // whether a volume is an emptyDir, by name
	targets func() sets.Set[string] // the containers that an ephemeral one may have as its target
	claims  func() sets.Set[string] // the resource claims that have a name
}

// checkPodSpec checks a pod. Volumes of claims come before those of the pod, and replace one of the
// same name.
func checkPodSpec(spec *corev1.PodSpec, path *field.Path, claims []corev1.Volume) field.ErrorList {
	c := &podCheck{PodSpec: spec, path: path, volumes: map[string]bool{}, claimed: map[string]bool{}, names: map[string]bool{}, empty: map[string]bool{}}
	c.targets = sync.OnceValue(func() sets.Set[string] {
		return sets.KeySet(describe.ByKey(slices.Concat(spec.Containers, spec.InitContainers), func(x *corev1.Container) string { return x.Name }))
	})
	c.claims = sync.OnceValue(func() sets.Set[string] {
		return sets.KeySet(describe.ByKey(spec.ResourceClaims, func(r *corev1.PodResourceClaim) string { return r.Name })).Delete("")
	})
	errs := c.checkVolumes(claims)
	for _, check := range texts.Each(&errs, []func() field.ErrorList{
		c.checkResourceClaims, c.checkOwnUsers, c.checkContainers, c.checkWholeResources, c.checkPolicies, c.checkNames, c.checkNetwork,
		c.checkSecurity, c.checkPlacement, c.checkHostProcess, c.checkHostName, c.checkOverhead, c.checkSystem, c.checkFileKeys,
	}) {
		errs = append(errs, check()...)
	}
	return errs
}

// checkOverhead checks the resources that a pod takes beside those of its containers.
func (c *podCheck) checkOverhead() field.ErrorList {
	if c.Overhead == nil {
		return nil
	}
	return checkRequirements(&corev1.ResourceRequirements{Limits: c.Overhead}, c.path.Child("overhead"), CheckResourceName)
}

// checkHostProcess checks the containers of Windows that are processes of their node: if there are
// any, all containers must be.
func (c *podCheck) checkHostProcess() field.ErrorList {
	var errs field.ErrorList
	var ofPod *bool
	if s := c.SecurityContext; s != nil && s.WindowsOptions != nil {
		ofPod = s.WindowsOptions.HostProcess
	}
	all, host := 0, 0
	for path, x := range texts.Until(&errs, c.each()) {
		all++
		own := ofPod
		if s := x.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			own = s.WindowsOptions.HostProcess
			if ofPod != nil && *ofPod != *own {
				errs = append(errs, field.Invalid(path.Child("securityContext", "windowsOptions", "hostProcess"), *own,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *ofPod)))
			}
		}
		if own != nil && *own {
			host++
		}
	}
	if host == 0 {
		return errs
	}
	if host != all {
		errs = append(errs, field.Invalid(c.path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !c.HostNetwork {
		errs = append(errs, field.Invalid(c.path.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}

// checkHostName checks a host name that is not the name of the pod.
func (c *podCheck) checkHostName() field.ErrorList {
	var errs field.ErrorList
	path := c.path.Child("hostnameOverride")
	if c.HostnameOverride == nil {
		return nil
	}
	if c.SetHostnameAsFQDN != nil && *c.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
	}
	if c.HostNetwork {
		errs = append(errs, field.Forbidden(path, "may not be specified when hostNetwork is true"))
	}
	if len(*c.HostnameOverride) > maxHostName {
		errs = append(errs, field.TooLong(path, "" /*unused*/, maxHostName))
	}
	return append(errs, describe.Invalid(path, *c.HostnameOverride, validation.IsDNS1123Subdomain(*c.HostnameOverride))...)
}

const maxHostName = 64

// each returns all containers with their paths.
func (c *podCheck) each() iter.Seq2[*field.Path, *corev1.Container] {
	return func(yield func(*field.Path, *corev1.Container) bool) {
		for i := range c.InitContainers {
			if !yield(c.path.Child("initContainers").Index(i), &c.InitContainers[i]) {
				return
			}
		}
		for i := range c.Containers {
			if !yield(c.path.Child("containers").Index(i), &c.Containers[i]) {
				return
			}
		}
		for i := range c.EphemeralContainers {
			x := corev1.Container(c.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(c.path.Child("ephemeralContainers").Index(i), &x) {
				return
			}
		}
	}
}

// checkFileKeys checks that files with variables are in emptyDir volumes.
func (c *podCheck) checkFileKeys() field.ErrorList {
	var errs field.ErrorList
	for path, x := range texts.Until(&errs, c.each()) {
		for i, e := range texts.Each(&errs, x.Env) {
			if e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil {
				continue
			}
			name, at := e.ValueFrom.FileKeyRef.VolumeName, path.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			if empty, ok := c.empty[name]; !ok {
				errs = append(errs, field.NotFound(at, name))
			} else if !empty {
				errs = append(errs, field.Invalid(at, name, "referenced volume must be of type emptyDir"))
			}
		}
	}
	return errs
}

// checkPolicies checks the policies, deadlines and grace period of a pod.
func (c *podCheck) checkPolicies() field.ErrorList {
	at := c.path.Child
	errs := describe.Among(at("restartPolicy"), c.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	errs = append(errs, describe.Among(at("dnsPolicy"), c.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	if p := c.PreemptionPolicy; p != nil {
		errs = append(errs, describe.Among(at("preemptionPolicy"), *p, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	if n := c.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > math.MaxInt32) {
		errs = append(errs, field.Invalid(at("activeDeadlineSeconds"), *n, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if c.OS != nil && c.OS.Name == "" {
		errs = append(errs, field.Required(at("os", "name"), ""))
	} else if c.OS != nil {
		errs = append(errs, describe.Among(at("os"), c.OS.Name, corev1.Linux, corev1.Windows)...)
	}
	return errs
}

// checkNames checks the names that a pod refers to.
func (c *podCheck) checkNames() field.ErrorList {
	at := c.path.Child
	errs := describe.CheckName(at("serviceAccountName"), c.ServiceAccountName, apivalidation.ValidateServiceAccountName)
	errs = append(errs, describe.CheckName(at("nodeName"), c.NodeName, apivalidation.NameIsDNSSubdomain)...)
	errs = append(errs, describe.CheckName(at("hostname"), c.Hostname, apivalidation.NameIsDNSLabel)...)
	errs = append(errs, describe.CheckName(at("subdomain"), c.Subdomain, apivalidation.NameIsDNSLabel)...)
	errs = append(errs, describe.CheckName(at("priorityClassName"), c.PriorityClassName, apivalidation.NameIsDNSSubdomain)...)
	if c.RuntimeClassName != nil {
		errs = append(errs, describe.Invalid(at("runtimeClassName"), *c.RuntimeClassName, apivalidation.NameIsDNSSubdomain(*c.RuntimeClassName, false))...)
	}
	for i, g := range texts.Each(&errs, c.ReadinessGates) {
		errs = append(errs, describe.Invalid(at("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType), validation.IsQualifiedName(string(g.ConditionType)))...)
	}
	gates := map[string]bool{}
	for i, g := range texts.Each(&errs, c.SchedulingGates) {
		path := at("schedulingGates").Index(i)
		errs = append(errs, describe.Invalid(path, g.Name, validation.IsQualifiedName(g.Name))...)
		if gates[g.Name] {
			errs = append(errs, field.Duplicate(path, g.Name))
		}
		gates[g.Name] = true
	}
	return errs
}

// maxNameservers and maxSearches are the limits of resolvers (resolv.conf).
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchText  = 2048
)

// checkNetwork checks the host name, host aliases and DNS of a pod.
func (c *podCheck) checkNetwork() field.ErrorList {
	var errs field.ErrorList
	said := texts.Over(&errs)
	for i, a := range texts.EachOf(said, c.HostAliases) {
		path := c.path.Child("hostAliases").Index(i)
		errs = append(errs, describe.CheckAddress(path.Child("ip"), a.IP)...)
		for j, name := range texts.EachOf(said, a.Hostnames) {
			errs = append(errs, describe.Invalid(path.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	said = texts.Over(&errs)
	for i := range texts.EachOf(said, c.Containers) {
		for j, p := range texts.EachOf(said, c.Containers[i].Ports) {
			if c.HostNetwork && p.HostPort != 0 && p.HostPort != p.ContainerPort {
				errs = append(errs, field.Invalid(c.path.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort,
					"must match `containerPort` when `hostNetwork` is true"))
			}
		}
	}
	return append(errs, c.checkDNS(c.path.Child("dnsConfig"))...)
}

// checkDNS checks the DNS policy and configuration.
func (c *podCheck) checkDNS(path *field.Path) field.ErrorList {
	config := c.DNSConfig
	if c.DNSPolicy == corev1.DNSNone {
		if config == nil {
			return field.ErrorList{field.Required(path, "must provide `dnsConfig` when `dnsPolicy` is None")}
		}
		if len(config.Nameservers) == 0 {
			return field.ErrorList{field.Required(path.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")}
		}
	}
	if config == nil {
		return nil
	}
	var errs field.ErrorList
	if len(config.Nameservers) > maxNameservers {
		errs = append(errs, field.Invalid(path.Child("nameservers"), config.Nameservers, fmt.Sprintf("must not have more than %d nameservers", maxNameservers)))
	}
	for i, ns := range texts.Each(&errs, config.Nameservers) {
		errs = append(errs, describe.CheckAddress(path.Child("nameservers").Index(i), ns)...)
	}
	if len(config.Searches) > maxSearches {
		errs = append(errs, field.Invalid(path.Child("searches"), config.Searches, fmt.Sprintf("must not have more than %d search paths", maxSearches)))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchText {
		errs = append(errs, field.Invalid(path.Child("searches"), config.Searches, fmt.Sprintf("must not have more than %d characters (including spaces) in the search list", maxSearchText)))
	}
	for i, search := range texts.Each(&errs, config.Searches) {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			errs = append(errs, describe.Invalid(path.Child("searches").Index(i), search, validation.IsDNS1123SubdomainWithUnderscore(search))...)
		}
	}
	for i, option := range texts.Each(&errs, config.Options) {
		if option.Name == "" {
			errs = append(errs, field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

// checkSecurity checks the security context of a pod.
func (c *podCheck) checkSecurity() field.ErrorList {
	s, path := c.SecurityContext, c.path.Child("securityContext")
	var errs field.ErrorList
	if share := c.ShareProcessNamespace; share != nil && *share && c.HostPID {
		errs = append(errs, field.Invalid(c.path.Child("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	if s == nil {
		return errs
	}
	errs = append(errs, checkID(path.Child("runAsUser"), s.RunAsUser, validation.IsValidUserID)...)
	errs = append(errs, checkID(path.Child("runAsGroup"), s.RunAsGroup, validation.IsValidGroupID)...)
	errs = append(errs, checkID(path.Child("fsGroup"), s.FSGroup, validation.IsValidGroupID)...)
	for i := range texts.Each(&errs, s.SupplementalGroups) {
		errs = append(errs, checkID(path.Child("supplementalGroups").Index(i), &s.SupplementalGroups[i], validation.IsValidGroupID)...)
	}
	names := map[string]bool{}
	for i, ctl := range texts.Each(&errs, s.Sysctls) {
		at := path.Child("sysctls").Index(i)
		switch {
		case ctl.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case len(ctl.Name) > maxSysctl || !sysctl.MatchString(ctl.Name):
			errs = append(errs, field.Invalid(at.Child("name"), ctl.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctl)))
		case names[ctl.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), ctl.Name))
		}
		errs = append(errs, c.checkHostSysctl(ctl.Name, at.Child("name"))...)
		names[ctl.Name] = true
	}
	if p := s.FSGroupChangePolicy; p != nil {
		errs = append(errs, describe.Among(path.Child("fsGroupChangePolicy"), *p, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	}
	errs = append(errs, checkSeccomp(path.Child("seccompProfile"), s.SeccompProfile)...)
	errs = append(errs, checkAppArmor(path.Child("appArmorProfile"), s.AppArmorProfile)...)
	if p := s.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, describe.Among(path.Child("supplementalGroupsPolicy"), *p, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	return errs
}

// checkHostSysctl refuses parameters of a namespace that the pod shares with the host.
func (c *podCheck) checkHostSysctl(name string, path *field.Path) field.ErrorList {
	name = strings.ReplaceAll(name, "/", ".")
	ipc := slices.ContainsFunc([]string{"kernel.shm", "kernel.msg", "fs.mqueue."}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) || name == "kernel.sem"
	switch {
	case c.HostNetwork && strings.HasPrefix(name, "net."):
		return field.ErrorList{field.Invalid(path, name, "may not be specified when 'hostNetwork' is true")}
	case c.HostIPC && ipc:
		return field.ErrorList{field.Invalid(path, name, "may not be specified when 'hostIPC' is true")}
	}
	return nil
}

// sysctl is the pattern for names of kernel parameters.
var sysctl = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

const maxSysctl = 253

// checkID checks the ID of a user or group, if it is set.
func checkID(path *field.Path, id *int64, rule func(int64) []string) field.ErrorList {
	if id == nil {
		return nil
	}
	return describe.Invalid(path, *id, rule(*id))
}

// checkSeccomp checks a seccomp profile.
func checkSeccomp(path *field.Path, p *corev1.SeccompProfile) field.ErrorList {
	if p == nil {
		return nil
	}
	switch local := p.LocalhostProfile; {
	case p.Type == "":
		return field.ErrorList{field.Required(path.Child("type"), "type is required when seccompProfile is set")}
	case p.Type == corev1.SeccompProfileTypeLocalhost && (local == nil || *local == ""):
		return field.ErrorList{field.Required(path.Child("localhostProfile"), "must be set when seccomp type is Localhost")}
	case p.Type == corev1.SeccompProfileTypeLocalhost:
		return describe.CheckDescending(path.Child("localhostProfile"), *local)
	case local != nil && slices.Contains([]corev1.SeccompProfileType{corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined}, p.Type):
		return field.ErrorList{field.Invalid(path.Child("localhostProfile"), local, "can only be set when seccomp type is Localhost")}
	}
	return describe.Among(path.Child("type"), p.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
}

// CheckAlways refuses restart policies other than Always.
func CheckAlways(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	return describe.Among(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, corev1.RestartPolicyAlways)
}
