package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/keelson-io/keelson/internal/admission/manifests"
	"github.com/keelson-io/keelson/internal/admission/plugins"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/webhook"
	"github.com/keelson-io/keelson/kind"
)

// This file opens what the configuration of admission plugins refers to: folders of webhooks and
// policies, and credentials for webhooks.

// staticAdmission is what admission plugins read from files, by plugin.
type staticAdmission struct {
	folders     map[string]*manifests.Folder
	credentials map[string]*atomic.Pointer[webhook.Credentials]
}

// staticKinds has the resources that the folder of a plugin may have.
var staticKinds = map[string][]string{
	plugins.MutatingWebhook:   {"mutatingwebhookconfigurations"},
	plugins.ValidatingWebhook: {"validatingwebhookconfigurations"},
	plugins.MutatingPolicy:    {"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"},
	plugins.ValidatingPolicy:  {"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
}

// openStatic reads the folders and credentials of the plugins that run.
func (s *Server) openStatic(on plugins.Set, configs *plugins.Configs) (*staticAdmission, error) {
	all := &staticAdmission{folders: map[string]*manifests.Folder{}, credentials: map[string]*atomic.Pointer[webhook.Credentials]{}}
	for plugin, resources := range staticKinds {
		if !on[plugin] {
			continue
		}
		dir, kubeconfig := configs.Files(plugin)
		if kubeconfig != "" {
			var err error
			if all.credentials[plugin], err = s.followCredentials(plugin, kubeconfig); err != nil {
				return nil, err
			}
		}
		if dir == "" {
			continue
		}
		var versions []*kind.Version
		for _, resource := range resources {
			versions = append(versions, s.kinds.Load().Lookup("admissionregistration.k8s.io", resource).Storage)
		}
		folder, err := manifests.Open(dir, versions...)
		if err != nil {
			return nil, fmt.Errorf("configuration of the admission plugin %s: staticManifestsDir: %w", plugin, err)
		}
		all.folders[plugin] = folder
		s.background = append(s.background, func(ctx context.Context) { folder.Run(ctx, s.config.ReloadInterval, s.logger) })
	}
	return all, nil
}

// followCredentials reads the kubeconfig of a plugin, and reads it again when it or a file that it
// names changes.
func (s *Server) followCredentials(plugin, kubeconfig string) (*atomic.Pointer[webhook.Credentials], error) {
	current := &atomic.Pointer[webhook.Credentials]{}
	err := s.files.Add(reloads.File{
		Name:  "admission-control-config-file",
		Paths: func() []string { return webhook.CredentialFiles(kubeconfig) },
		Use: func(map[string][]byte) error {
			c, err := webhook.LoadCredentials(kubeconfig)
			if err != nil {
				return err
			}
			current.Store(c)
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configuration of the admission plugin %s: kubeConfigFile: %w", plugin, err)
	}
	return current, nil
}
