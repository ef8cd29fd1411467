package envtest

import (
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// This file is the kind that the tests' controller looks after: Task, in two versions that a webhook converts.

const group = "tasks.example.org"

// Task is version v1, which is stored.
type Task struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Text string `json:"text,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitempty"`
}

// Hub says that other versions are converted by way of this one.
func (*Task) Hub() {}

// DeepCopyObject implements runtime.Object.
func (t *Task) DeepCopyObject() runtime.Object {
	c := *t
	c.ObjectMeta = *t.ObjectMeta.DeepCopy()
	return &c
}

// TaskList is a list of them.
type TaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Task `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *TaskList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Task))
	}
	return &c
}

// TaskV2 is version v2, which calls the text a title.
type TaskV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Title string `json:"title,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (t *TaskV2) DeepCopyObject() runtime.Object {
	c := *t
	c.ObjectMeta = *t.ObjectMeta.DeepCopy()
	return &c
}

// ConvertTo implements conversion.Convertible.
func (t *TaskV2) ConvertTo(hub conversion.Hub) error {
	to := hub.(*Task)
	to.ObjectMeta, to.Spec.Text, to.Status.Phase = t.ObjectMeta, t.Spec.Title, t.Status.Phase
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (t *TaskV2) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Task)
	t.ObjectMeta, t.Spec.Title, t.Status.Phase = from.ObjectMeta, from.Spec.Text, from.Status.Phase
	return nil
}

// newScheme is a scheme with the built-in kinds and this one.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		panic("BUG: " + err.Error())
	}
	v1, v2 := schema.GroupVersion{Group: group, Version: "v1"}, schema.GroupVersion{Group: group, Version: "v2"}
	s.AddKnownTypes(v1, &Task{}, &TaskList{})
	s.AddKnownTypeWithName(v2.WithKind("Task"), &TaskV2{})
	metav1.AddToGroupVersion(s, v1)
	metav1.AddToGroupVersion(s, v2)
	return s
}

// definition is the kind's definition.
func definition() *apiextv1.CustomResourceDefinition {
	version := func(name, field string, storage bool) apiextv1.CustomResourceDefinitionVersion {
		text := apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{field: {Type: "string"}}}
		status := apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"phase": {Type: "string"}}}
		return apiextv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"spec": text, "status": status}}},
			Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "tasks." + group},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextv1.NamespaceScoped,
			Names:    apiextv1.CustomResourceDefinitionNames{Plural: "tasks", Singular: "task", Kind: "Task", ListKind: "TaskList"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{version("v1", "text", true), version("v2", "title", false)},
		},
	}
}
