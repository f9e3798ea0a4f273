"""The external compare-and-swap record that says who leads the control plane."""
