package server

import (
	"github.com/keelson-io/keelson/internal/audit"
)

// This file opens the audit log.

// openAudit returns the auditor, nil if none is configured.
func (s *Server) openAudit() (*audit.Auditor, error) {
	c := &s.config
	if c.AuditPolicyFile == "" {
		if c.AuditLog.Path != "" || c.AuditWebhook.ConfigFile != "" {
			s.logger.Warn("no request is recorded: there is no audit policy")
		}
		return nil, nil
	}
	policy, err := audit.LoadPolicy(c.AuditPolicyFile, s.logger)
	if err != nil {
		return nil, err
	}
	metrics := audit.NewMetrics(s.metrics)
	var backends []audit.Backend
	if c.AuditLog.Path != "" {
		c.AuditLog.MaxBytes = s.memory.Shares().Audit
		b, err := audit.OpenLog(c.AuditLog, metrics, s.logger)
		if err != nil {
			return nil, err
		}
		s.trackAudit("audit log", b)
		s.opened = append(s.opened, b)
		backends = append(backends, b)
	}
	if c.AuditWebhook.ConfigFile != "" {
		c.AuditWebhook.MaxBytes, c.AuditWebhook.Certificates, c.AuditWebhook.Files = s.memory.Shares().Audit, s.hooks.Certificates, s.files
		b, err := audit.OpenWebhook(c.AuditWebhook, metrics, s.logger)
		if err != nil {
			return nil, err
		}
		s.trackAudit("audit webhook", b)
		s.opened = append(s.opened, b)
		backends = append(backends, b)
	}
	all := audit.Backends(backends...)
	if all == nil {
		return nil, nil
	}
	return audit.NewAuditor(policy, all, metrics, s.logger), nil
}
