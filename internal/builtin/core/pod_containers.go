package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks containers.

// checkContainers checks all containers of a pod, and that their names differ.
func (c *podCheck) checkContainers() field.ErrorList {
	var errs field.ErrorList
	path := c.path.Child("containers")
	if len(c.Containers) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	hostPorts := map[string]bool{}
	for i := range texts.Each(&errs, c.Containers) {
		x, at := &c.Containers[i], path.Index(i)
		errs = append(errs, c.checkContainer(x, at)...)
		errs = append(errs, c.checkHooks(x, at)...)
		errs = append(errs, checkHostPorts(x, at, hostPorts)...)
	}
	for i := range texts.Each(&errs, c.InitContainers) {
		x, at := &c.InitContainers[i], c.path.Child("initContainers").Index(i)
		errs = append(errs, c.checkContainer(x, at)...)
		if x.RestartPolicy != nil && *x.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			errs = append(errs, c.checkHooks(x, at)...)
		} else {
			errs = append(errs, checkNoHooks(x, at)...)
		}
		errs = append(errs, checkHostPorts(x, at, map[string]bool{})...)
	}
	for i := range texts.Each(&errs, c.EphemeralContainers) {
		x, at := corev1.Container(c.EphemeralContainers[i].EphemeralContainerCommon), c.path.Child("ephemeralContainers").Index(i)
		errs = append(errs, c.checkContainer(&x, at)...)
		errs = append(errs, c.checkEphemeral(&c.EphemeralContainers[i], at)...)
	}
	return errs
}

// checkContainer checks one container.
func (c *podCheck) checkContainer(x *corev1.Container, path *field.Path) field.ErrorList {
	errs := describe.CheckLabel(path.Child("name"), x.Name)
	if c.names[x.Name] {
		errs = append(errs, field.Duplicate(path.Child("name"), x.Name))
	}
	if x.Name != "" {
		c.names[x.Name] = true
	}
	errs = append(errs, describe.NeedText(path.Child("image"), x.Image)...)
	errs = append(errs, describe.Among(path.Child("terminationMessagePolicy"), x.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, checkRestarts(x, path)...)
	errs = append(errs, checkPorts(x.Ports, path.Child("ports"))...)
	errs = append(errs, checkEnv(x, path)...)
	errs = append(errs, c.checkMounts(x, path.Child("volumeMounts"))...)
	errs = append(errs, c.checkDevices(x, path.Child("volumeDevices"))...)
	errs = append(errs, checkRequirements(&x.Resources, path.Child("resources"), CheckResourceName)...)
	errs = append(errs, c.checkClaimNames(x, path.Child("resources", "claims"))...)
	errs = append(errs, c.checkResizing(x.ResizePolicy, path.Child("resizePolicy"))...)
	return append(errs, c.checkContainerSecurity(x.SecurityContext, path.Child("securityContext"))...)
}

// checkImage refuses images with spaces around them.
func checkImage(path *field.Path, image string) field.ErrorList {
	if strings.TrimSpace(image) != image {
		return field.ErrorList{field.Invalid(path, image, "must not have leading or trailing whitespace")}
	}
	return nil
}

// checkPorts checks the ports of a container.
func checkPorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, p := range texts.Each(&errs, ports) {
		at := path.Index(i)
		if p.Name != "" {
			found := describe.Invalid(at.Child("name"), p.Name, validation.IsValidPortName(p.Name))
			if found == nil && names[p.Name] {
				found = field.ErrorList{field.Duplicate(at.Child("name"), p.Name)}
			}
			names[p.Name] = true
			errs = append(errs, found...)
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, describe.Invalid(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort)))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, describe.Invalid(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort)))...)
		}
	}
	return errs
}

// checkHostPorts refuses a port of the host that another has.
func checkHostPorts(x *corev1.Container, path *field.Path, have map[string]bool) field.ErrorList {
	var errs field.ErrorList
	for i, p := range texts.Each(&errs, x.Ports) {
		if p.HostPort == 0 {
			continue
		}
		port := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
		if have[port] {
			errs = append(errs, field.Duplicate(path.Child("ports").Index(i).Child("hostPort"), port))
		}
		have[port] = true
	}
	return errs
}

// The fields of a pod and of a container that a variable can have.
var (
	envFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	volumeFields   = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	resourceFields = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"}
)

// checkEnv checks the environment of a container.
func checkEnv(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range texts.Each(&errs, x.Env) {
		at := path.Child("env").Index(i)
		if e.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		} else {
			errs = append(errs, describe.Invalid(at.Child("name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))...)
		}
		if e.ValueFrom != nil {
			errs = append(errs, checkEnvSource(&e, at.Child("valueFrom"))...)
		}
	}
	at := path.Child("envFrom")
	for i, e := range texts.Each(&errs, x.EnvFrom) {
		if e.Prefix != "" {
			errs = append(errs, describe.Invalid(at.Index(i).Child("prefix"), e.Prefix, validation.IsRelaxedEnvVarName(e.Prefix))...)
		}
		if e.ConfigMapRef != nil {
			errs = append(errs, checkRef(at.Index(i).Child("configMapRef", "name"), e.ConfigMapRef.Name)...)
		}
		if e.SecretRef != nil {
			errs = append(errs, checkRef(at.Index(i).Child("secretRef", "name"), e.SecretRef.Name)...)
		}
		switch {
		case e.ConfigMapRef == nil && e.SecretRef == nil:
			errs = append(errs, field.Invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
		case e.ConfigMapRef != nil && e.SecretRef != nil:
			errs = append(errs, field.Invalid(at, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// checkRef checks a name of another object, which must be there.
func checkRef(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return describe.Invalid(path, name, validation.IsDNS1123Subdomain(name))
}

// checkEnvSource checks that a variable has one source, and checks it.
func checkEnvSource(e *corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	sources, from := 0, e.ValueFrom
	if f := from.FieldRef; f != nil {
		sources++
		errs = append(errs, checkFieldSelector(f, path.Child("fieldRef"), envFields)...)
	}
	if f := from.ResourceFieldRef; f != nil {
		sources++
		errs = append(errs, checkResourceRef(f, path.Child("resourceFieldRef"), false)...)
	}
	if k := from.ConfigMapKeyRef; k != nil {
		sources++
		errs = append(errs, checkKeyRef(k.Name, k.Key, path.Child("configMapKeyRef"))...)
	}
	if k := from.SecretKeyRef; k != nil {
		sources++
		errs = append(errs, checkKeyRef(k.Name, k.Key, path.Child("secretKeyRef"))...)
	}
	if k := from.FileKeyRef; k != nil {
		sources++
		errs = append(errs, checkFileKey(k, path.Child("fileKeyRef"))...)
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case e.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

// checkFileKey checks a variable in a file.
func checkFileKey(k *corev1.FileKeySelector, path *field.Path) field.ErrorList {
	errs := describe.NeedText(path.Child("key"), k.Key)
	if k.Key != "" {
		errs = append(errs, describe.Invalid(path.Child("key"), k.Key, validation.IsRelaxedEnvVarName(k.Key))...)
	}
	errs = append(errs, describe.CheckLabel(path.Child("volumeName"), k.VolumeName)...)
	errs = append(errs, describe.NeedText(path.Child("path"), k.Path)...)
	return append(errs, describe.CheckNoBacksteps(path.Child("path"), k.Path)...)
}

// checkKeyRef checks the key of a config map or secret.
func checkKeyRef(name, key string, path *field.Path) field.ErrorList {
	errs := describe.Invalid(path.Child("name"), name, validation.IsDNS1123Subdomain(name))
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	return append(errs, describe.Invalid(path.Child("key"), key, validation.IsConfigMapKey(key))...)
}

// checkFieldSelector checks the field of a pod that a variable or file has, which may be one label
// or annotation.
func checkFieldSelector(f *corev1.ObjectFieldSelector, path *field.Path, may []string) field.ErrorList {
	switch {
	case f.APIVersion == "":
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	case f.FieldPath == "":
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	}
	if name, key, ok := strings.Cut(strings.TrimSuffix(f.FieldPath, "']"), "['"); ok && strings.HasSuffix(f.FieldPath, "']") {
		switch name {
		case "metadata.annotations":
			key = strings.ToLower(key)
			fallthrough
		case "metadata.labels":
			return describe.Invalid(path, key, validation.IsQualifiedName(key))
		}
		return field.ErrorList{field.Invalid(path, f.FieldPath, "does not support subscript")}
	}
	if !slices.Contains(envFields, f.FieldPath) && !slices.Contains(volumeFields, f.FieldPath) && !podFieldLabels[f.FieldPath] {
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), f.FieldPath, "error converting fieldPath: field label not supported: "+f.FieldPath)}
	}
	return describe.Among(path.Child("fieldPath"), f.FieldPath, may...)
}

// podFieldLabels has the fields that are known but that pods do not have.
var podFieldLabels = map[string]bool{"spec.restartPolicy": true, "spec.schedulerName": true, "status.phase": true}

// checkResourceRef checks a reference to a resource of a container.
func checkResourceRef(f *corev1.ResourceFieldSelector, path *field.Path, volume bool) field.ErrorList {
	switch {
	case volume && f.ContainerName == "":
		return field.ErrorList{field.Required(path.Child("containerName"), "")}
	case f.Resource == "":
		return field.ErrorList{field.Required(path.Child("resource"), "")}
	case strings.HasPrefix(f.Resource, "limits.hugepages-") || strings.HasPrefix(f.Resource, "requests.hugepages-"):
		return nil
	}
	return describe.Among(path.Child("resource"), f.Resource, resourceFields...)
}

// checkMounts checks that mounts refer to volumes, and that their paths differ.
func (c *podCheck) checkMounts(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := map[string]bool{}
	for i, m := range texts.Each(&errs, x.VolumeMounts) {
		one := path.Index(i)
		errs = append(errs, describe.NeedText(one.Child("name"), m.Name)...)
		if !c.volumes[m.Name] {
			errs = append(errs, field.NotFound(one.Child("name"), m.Name))
		}
		errs = append(errs, describe.NeedText(one.Child("mountPath"), m.MountPath)...)
		if at[m.MountPath] {
			errs = append(errs, field.Invalid(one.Child("mountPath"), m.MountPath, "must be unique"))
		}
		at[m.MountPath] = true
		// Upstream reports these without the path of the mount.
		errs = append(errs, describe.CheckDescending(path.Child("subPath"), m.SubPath)...)
		errs = append(errs, describe.CheckDescending(path.Child("subPathExpr"), m.SubPathExpr)...)
		if m.SubPath != "" && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(one.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
		}
		if p := m.MountPropagation; p != nil {
			errs = append(errs, describe.Among(path.Child("mountPropagation"), *p, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
			if s := x.SecurityContext; *p == corev1.MountPropagationBidirectional && (s == nil || s.Privileged == nil || !*s.Privileged) {
				errs = append(errs, field.Forbidden(path.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
			}
		}
		errs = append(errs, checkRecursive(&m, path.Child("recursiveReadOnly"))...)
	}
	return errs
}

// checkRecursive checks whether mounts below a read-only mount are read-only too.
func checkRecursive(m *corev1.VolumeMount, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r := m.RecursiveReadOnly; {
	case r == nil || *r == corev1.RecursiveReadOnlyDisabled:
	case *r != corev1.RecursiveReadOnlyEnabled && *r != corev1.RecursiveReadOnlyIfPossible:
		errs = append(errs, field.NotSupported(path, *r, []corev1.RecursiveReadOnlyMode{corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible}))
	default:
		if !m.ReadOnly {
			errs = append(errs, field.Forbidden(path, "may only be specified when readOnly is true"))
		}
		if p := m.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
			errs = append(errs, field.Forbidden(path, "may only be specified when mountPropagation is None or not specified"))
		}
	}
	return errs
}

// Standard resources of containers, and other standard resources without a domain.
var (
	containerResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	otherResources     = []corev1.ResourceName{"pods", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
		"limits.ephemeral-storage", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
		"storage", "requests.storage", "services.nodeports", "services.loadbalancers"}
)

const hugePages = "hugepages-"

// isExtended reports whether a resource is an extended one: it has a domain of its own, is counted
// in whole numbers, and cannot be overcommitted.
func isExtended(name corev1.ResourceName) bool {
	group, _, ok := strings.Cut(string(name), "/")
	return ok && group != "kubernetes.io" && !strings.HasSuffix(group, ".kubernetes.io") && !strings.HasPrefix(string(name), "requests.")
}

// CheckResourceName checks the name of a resource such as cpu.
func CheckResourceName(path *field.Path, name corev1.ResourceName) field.ErrorList {
	if errs := describe.Invalid(path, name, validation.IsQualifiedName(string(name))); errs != nil {
		return errs
	}
	if strings.Contains(string(name), "/") || isHugePages(name) || slices.Contains(containerResources, name) {
		return nil
	}
	return append(checkStandard(path, name), field.Invalid(path, name, "must be a standard resource for containers"))
}

// checkStandard refuses the name of a resource without a domain that is not a standard one.
func checkStandard(path *field.Path, name corev1.ResourceName) field.ErrorList {
	if strings.Contains(string(name), "/") || isHugePages(name) || slices.Contains(containerResources, name) || slices.Contains(otherResources, name) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be a standard resource type or fully qualified")}
}

// CheckQuantity refuses a negative quantity, and a fraction if it has to be whole.
func CheckQuantity(path *field.Path, q resource.Quantity, whole bool) field.ErrorList {
	var errs field.ErrorList
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(path, q.String(), "must be greater than or equal to 0"))
	}
	if whole && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q, "must be an integer"))
	}
	return errs
}

// checkRequirements checks requests and limits, and their names by checkName. No request may be above its limit.
func checkRequirements(r *corev1.ResourceRequirements, path *field.Path, checkName func(*field.Path, corev1.ResourceName) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	limits, requests := path.Child("limits"), path.Child("requests")
	for _, name := range texts.Each(&errs, slices.Sorted(maps.Keys(r.Limits))) {
		errs = append(errs, checkName(limits.Key(string(name)), name)...)
		errs = append(errs, CheckQuantity(limits.Key(string(name)), r.Limits[name], isExtended(name))...)
	}
	for _, name := range texts.Each(&errs, slices.Sorted(maps.Keys(r.Requests))) {
		q, fixed := r.Requests[name], isExtended(name) || isHugePages(name)
		errs = append(errs, checkName(requests.Key(string(name)), name)...)
		errs = append(errs, CheckQuantity(requests.Key(string(name)), q, isExtended(name))...)
		limit, ok := r.Limits[name]
		switch {
		case !ok && fixed:
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		case ok && fixed && q.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case ok && q.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(r.Limits)), maps.Keys(r.Requests))
	if slices.ContainsFunc(names, isHugePages) && !slices.Contains(names, corev1.ResourceCPU) && !slices.Contains(names, corev1.ResourceMemory) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
}

// checkContainerSecurity checks the security context of a container.
func (c *podCheck) checkContainerSecurity(s *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := checkID(path.Child("runAsUser"), s.RunAsUser, validation.IsValidUserID)
	errs = append(errs, checkID(path.Child("runAsGroup"), s.RunAsGroup, validation.IsValidGroupID)...)
	if m := s.ProcMount; m != nil {
		errs = append(errs, describe.Among(path.Child("procMount"), *m, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *m == corev1.UnmaskedProcMount && (c.HostUsers == nil || *c.HostUsers) {
			errs = append(errs, field.Invalid(path.Child("procMount"), m, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, checkSeccomp(path.Child("seccompProfile"), s.SeccompProfile)...)
	errs = append(errs, checkAppArmor(path.Child("appArmorProfile"), s.AppArmorProfile)...)
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		return errs
	}
	if s.Privileged != nil && *s.Privileged {
		errs = append(errs, field.Invalid(path, describe.InGoNames(s), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
	}
	if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
		errs = append(errs, field.Invalid(path, describe.InGoNames(s), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
	}
	return errs
}

// checkHooks checks the hooks and probes of a container.
func (c *podCheck) checkHooks(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if l := x.Lifecycle; l != nil {
		errs = append(errs, c.checkHook(l.PostStart, path.Child("lifecycle", "postStart"))...)
		errs = append(errs, c.checkHook(l.PreStop, path.Child("lifecycle", "preStop"))...)
	}
	errs = append(errs, checkProbe(x.LivenessProbe, path.Child("livenessProbe"))...)
	errs = append(errs, checkOnce(x.LivenessProbe, path.Child("livenessProbe"))...)
	errs = append(errs, checkProbe(x.ReadinessProbe, path.Child("readinessProbe"))...)
	if p := x.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(path.Child("readinessProbe", "terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	errs = append(errs, checkProbe(x.StartupProbe, path.Child("startupProbe"))...)
	return append(errs, checkOnce(x.StartupProbe, path.Child("startupProbe"))...)
}

// checkHook checks a hook of a container's life.
func (c *podCheck) checkHook(h *corev1.LifecycleHandler, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	if g := c.TerminationGracePeriodSeconds; h.Sleep != nil && h.Exec == nil && h.HTTPGet == nil && h.TCPSocket == nil && g != nil && (h.Sleep.Seconds < 0 || h.Sleep.Seconds > *g) {
		return field.ErrorList{field.Invalid(path.Child("sleep"), h.Sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *g))}
	}
	return checkHandler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep}, path)
}

// checkOnce refuses a probe that must succeed more than once.
func checkOnce(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p == nil || p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
}

// checkNoHooks refuses hooks and probes for an init container that ends before others start.
func checkNoHooks(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, hook := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", x.Lifecycle != nil}, {"livenessProbe", x.LivenessProbe != nil}, {"readinessProbe", x.ReadinessProbe != nil}, {"startupProbe", x.StartupProbe != nil},
	} {
		if hook.set {
			errs = append(errs, field.Forbidden(path.Child(hook.name), "may not be set for init containers without restartPolicy=Always"))
		}
	}
	return errs
}

// checkProbe checks the times and the handler of a probe.
func checkProbe(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := checkHandler(handler{p.Exec, p.HTTPGet, p.TCPSocket, p.GRPC, nil}, path)
	errs = append(errs, describe.NotNegative(path.Child("initialDelaySeconds"), p.InitialDelaySeconds)...)
	errs = append(errs, describe.NotNegative(path.Child("timeoutSeconds"), p.TimeoutSeconds)...)
	errs = append(errs, describe.NotNegative(path.Child("periodSeconds"), p.PeriodSeconds)...)
	errs = append(errs, describe.NotNegative(path.Child("successThreshold"), p.SuccessThreshold)...)
	errs = append(errs, describe.NotNegative(path.Child("failureThreshold"), p.FailureThreshold)...)
	return append(errs, describe.AtLeast(path.Child("terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, 1)...)
}

// handler is the action of a hook or probe. One of the fields is set.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

// checkHandler checks that there is one action, and checks it.
func checkHandler(h handler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ways := 0
	way := func(name string, set bool, check func(*field.Path) field.ErrorList) {
		switch {
		case !set:
		case ways > 0:
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
		default:
			ways++
			errs = append(errs, check(path.Child(name))...)
		}
	}
	way("exec", h.exec != nil, func(at *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(at.Child("command"), "")}
		}
		return nil
	})
	way("httpGet", h.http != nil, func(at *field.Path) field.ErrorList {
		found := describe.CheckPortOrName(at.Child("port"), h.http.Port)
		found = append(found, describe.Among(at.Child("scheme"), h.http.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
		for _, header := range h.http.HTTPHeaders {
			found = append(found, describe.Invalid(at.Child("httpHeaders"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
		}
		return found
	})
	way("tcpSocket", h.tcp != nil, func(at *field.Path) field.ErrorList { return describe.CheckPortOrName(at.Child("port"), h.tcp.Port) })
	way("grpc", h.grpc != nil, func(at *field.Path) field.ErrorList {
		return describe.CheckPortOrName(at.Child("port"), intstr.FromInt32(h.grpc.Port))
	})
	way("sleep", h.sleep != nil, func(*field.Path) field.ErrorList { return nil })
	if ways == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return errs
}

// checkDecimal checks a text that must be a decimal number.
func checkDecimal(path *field.Path, text string) field.ErrorList {
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}
