"""Random histories over group coordinators, against what their log says."""
