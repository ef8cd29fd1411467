package mem

import (
	"testing"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return New(Options{}) })
}
