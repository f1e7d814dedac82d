package computer

import (
	"fmt"
	"path/filepath"

	"enplace/internal/transcript"
)

// removeLogs removes the logs of a computer's installations.
func (s *Service) removeLogs(id string) error {
	paths, err := filepath.Glob(filepath.Join(s.cfg.LogDir, volumeOf(id)+".*.log"))
	if err != nil {
		return err
	}
	for _, p := range paths {
		if err := transcript.Remove(p); err != nil {
			return fmt.Errorf("removing the logs of %s: %w", id, err)
		}
	}
	return nil
}
