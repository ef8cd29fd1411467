package apply

import "github.com/keelson-io/keelson/doc"

func (m *Manager) updateDirect(live, new *doc.Doc, o *Options) bool { return false }
