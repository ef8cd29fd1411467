// Command embed is a program that uses packages of Keelson. It prints the result of a rule, and
// whether a fast path is on.
package main

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/jsondoc"
	_ "github.com/keelson-io/keelson/schema"
)

func main() {
	env, err := cel.NewEnv(cel.EnvOptions{})
	if err != nil {
		panic(err)
	}
	rule, err := env.Types().Compile("self <= 3", &cel.Type{Kind: cel.Int}, cel.CompileOptions{})
	if err != nil {
		panic(err)
	}
	var d jsondoc.Doc
	if err := jsondoc.Parse(&d, []byte("2")); err != nil {
		panic(err)
	}
	ok, _, err := rule.Eval(context.Background(), &cel.Activation{Self: d.Root()}, 1000)
	fmt.Println(ok, err, fastpath.Diagrams.On())
}
