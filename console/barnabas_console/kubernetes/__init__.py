"""What Kubernetes plans and waits for (CON-122): read by list requests, never written."""
