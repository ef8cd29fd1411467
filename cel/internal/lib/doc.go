// Package lib defines the functions that Kubernetes adds to the language, bound for cel-go: their
// values are cel-go's (ref.Val), and cel-go's checker knows their declarations. [Libraries] says
// which version introduced and which removed them. The evaluator calls them through cel-go's
// representation, unless it has a faster implementation.
package lib
