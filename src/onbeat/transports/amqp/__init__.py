"""RabbitMQ, over AMQP 0-9-1."""
