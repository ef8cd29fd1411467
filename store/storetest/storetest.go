package storetest

import (
	"testing"

	"github.com/keelson-io/keelson/store"
)

// Run runs the suite. open returns an empty store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Store) { panic("BUG: not built yet") }
