"""How clients prove who they are: verdicts on what SASL's exchanges ask for."""
