package cel_test

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

func Example() {
	limit := int64(10)
	name := &cel.Type{Kind: cel.String}
	name.SetSizes(&limit, 0)
	replicas := &cel.Type{Kind: cel.Int}
	replicas.SetSizes(nil, 0)
	self := &cel.Type{Kind: cel.Object, Fields: []cel.Field{
		{Name: "name", Type: name, Slot: -1},
		{Name: "replicas", Type: replicas, Slot: -1},
	}}
	self.SetSizes(nil, 0)

	env, err := cel.NewEnv(cel.EnvOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, err := env.Types().Compile("has(self.name) && self.replicas <= 3", self, cel.CompileOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}

	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, []byte(`{"name": "web", "replicas": 5}`)); err != nil {
		fmt.Println(err)
		return
	}
	ok, cost, err := rule.Eval(context.Background(), &cel.Activation{Self: d.Root()}, 1_000_000)
	fmt.Println(ok, cost, err, rule.MaxCost())
	// Output: false 4 <nil> 4
}
