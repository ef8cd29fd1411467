package api

import (
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/status"
)

// This file refuses what only who runs pods can do.

// ofRunningPods are the subresources of pods that are served by the node that a pod runs on.
var ofRunningPods = map[string]bool{"log": true, "exec": true, "attach": true, "portforward": true, "proxy": true}

// notRunning is why something cannot be asked of a pod.
func (q *request) notRunning() error {
	if err := q.settle(""); err != nil {
		return err
	}
	ref := q.ref()
	obj, ok := q.res.Get(ref.Key())
	if !ok {
		return status.NotFound(q.kind.GroupResource(), q.name)
	}
	view, err := obj.View(q.v)
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, view.JSON); err != nil {
		return err
	}
	if d.Root().At("spec", "nodeName").Text() == "" {
		return status.BadRequest("pod %s does not have a host assigned", q.name)
	}
	return status.BadRequest("pod %s does not run: this server keeps pods, no node runs them", q.name)
}
