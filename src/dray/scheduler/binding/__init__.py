"""The binding cycle: reserve, prebind, bind, and unreserve when one of them fails."""
