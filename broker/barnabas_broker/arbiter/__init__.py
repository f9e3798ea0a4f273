"""The external compare-and-swap record that names the leader of the control plane."""
